package contracttest

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/extension"
)

// API names one of the two APIs.
type API string

// The APIs.
const (
	Core      API = "core"
	Extension API = "extension"
)

// document is an OpenAPI document with its references followed and its schemas
// compiled.
type document struct {
	Paths     map[string]map[string]*operation `json:"paths"`
	Unmatched *operation                       `json:"x-unmatched"` // answers to requests that match no operation
	Preflight *operation                       `json:"x-preflight"` // answers to CORS preflights; nil on an API without CORS

	operations []*operation // of Paths
}

// operation is a method of a path.
type operation struct {
	ID         string                `json:"operationId"`
	Security   []map[string][]string `json:"security"`
	Parameters []parameter           `json:"parameters"`
	Body       *body                 `json:"requestBody"` // nil: the operation has no body
	Responses  map[int]*response     `json:"responses"`

	method   string
	template string
}

// security returns the credentials that open the operation, each with the scopes that it
// needs. Any one of them is enough.
func (o *operation) security() map[string][]string {
	all := map[string][]string{}
	for _, alternative := range o.Security {
		maps.Copy(all, alternative)
	}
	return all
}

type parameter struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      *schema        `json:"schema"`
	Example     jsontext.Value `json:"example"`
}

type body struct {
	Required bool             `json:"required"`
	Content  map[string]media `json:"content"` // by media type
}

// response describes an operation's answers with one status.
type response struct {
	Headers map[string]header `json:"headers"`
	Content map[string]media  `json:"content"` // by media type; empty: no body
}

type header struct {
	Required bool    `json:"required"`
	Schema   *schema `json:"schema"`
}

type media struct {
	Schema   *schema            `json:"schema"`
	Examples map[string]example `json:"examples"`
}

type example struct {
	Value jsontext.Value `json:"value"`
}

type schema struct{ *jsonschema.Schema }

var documents = map[API]func() (*document, error){
	Core:      sync.OnceValues(func() (*document, error) { return load(core.OpenAPI) }),
	Extension: sync.OnceValues(func() (*document, error) { return load(extension.OpenAPI) }),
}

func documentOf(api API) (*document, error) {
	loaded, ok := documents[api]
	if !ok {
		return nil, fmt.Errorf("contracttest: no API %q", api)
	}
	d, err := loaded()
	if err != nil {
		return nil, fmt.Errorf("contracttest: %s: %w", api, err)
	}
	return d, nil
}

const (
	sourceURL  = "https://contract.invalid/source.json"
	components = "#/components/"
)

func load(source []byte) (*document, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource(sourceURL, root); err != nil {
		return nil, err
	}
	text, err := stdjson.Marshal(followed(root, root)) // encoding/json knows json.Number
	if err != nil {
		return nil, err
	}
	compiled := make(map[string]*jsonschema.Schema) // by text
	compile := func(text []byte, s *schema) error {
		if s.Schema = compiled[string(text)]; s.Schema != nil {
			return nil
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return err
		}
		url := fmt.Sprintf("https://contract.invalid/%d.json", len(compiled))
		if err := compiler.AddResource(url, value); err != nil {
			return err
		}
		s.Schema, err = compiler.Compile(url)
		compiled[string(text)] = s.Schema
		return err
	}
	d := &document{}
	if err := json.Unmarshal(text, d, json.WithUnmarshalers(json.UnmarshalFunc(compile))); err != nil {
		return nil, err
	}
	for template, item := range d.Paths {
		for method, op := range item {
			op.method, op.template = strings.ToUpper(method), template
			d.operations = append(d.operations, op)
		}
	}
	d.Unmatched.ID, d.Unmatched.method, d.Unmatched.template = "(no route)", "*", "(no route)"
	if p := d.Preflight; p != nil {
		p.ID, p.method, p.template = "(preflight)", "OPTIONS", "(preflight)"
	}
	return d, nil
}

// followed returns node with each reference replaced by its target. A reference to a
// schema becomes absolute instead, and the compiler follows it.
func followed(root, node any) any {
	switch node := node.(type) {
	case map[string]any:
		if ref, ok := node["$ref"].(string); ok {
			if strings.HasPrefix(ref, components+"schemas/") {
				return map[string]any{"$ref": sourceURL + ref}
			}
			kind, name, _ := strings.Cut(strings.TrimPrefix(ref, components), "/")
			all := root.(map[string]any)["components"].(map[string]any)
			return followed(root, all[kind].(map[string]any)[name])
		}
		copied := make(map[string]any, len(node))
		for name, value := range node {
			copied[name] = followed(root, value)
		}
		return copied
	case []any:
		copied := make([]any, len(node))
		for i, value := range node {
			copied[i] = followed(root, value)
		}
		return copied
	}
	return node
}

// validate checks a JSON text.
func (s *schema) validate(text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return s.Validate(value)
}
