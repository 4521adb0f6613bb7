package contracttest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/extension"
)

// API names one of the two.
type API string

// The APIs.
const (
	Core      API = "core"
	Extension API = "extension"
)

// document is an OpenAPI document, compiled.
type document struct {
	operations []*operation
	unmatched  *operation // answers to what no operation takes
	preflight  *operation // answers to CORS preflights; nil on an API without CORS
}

// operation is a method of a path.
type operation struct {
	id           string
	method       string
	template     string
	segments     []string // of the template; "{name}" matches anything but nothing
	bodyRequired bool
	body         map[string]*jsonschema.Schema // by media type; nil: the operation has no body
	responses    map[int]*response
}

// response is what an operation answers with one status.
type response struct {
	headers []header
	content map[string]*jsonschema.Schema // by media type; empty: no body
}

type header struct {
	name     string
	required bool
	integer  bool
	schema   *jsonschema.Schema
}

var sources = map[API][]byte{Core: core.OpenAPI, Extension: extension.OpenAPI}

var documents = map[API]func() (*document, error){
	Core:      sync.OnceValues(func() (*document, error) { return load(Core) }),
	Extension: sync.OnceValues(func() (*document, error) { return load(Extension) }),
}

func documentOf(api API) (*document, error) {
	loaded, ok := documents[api]
	if !ok {
		return nil, fmt.Errorf("contracttest: no API %q", api)
	}
	return loaded()
}

// reader walks through a document and compiles the schemas in it.
type reader struct {
	url      string
	compiler *jsonschema.Compiler
	root     any
}

// place is a value in the document and how to get there.
type place struct {
	value   any
	pointer string
}

func newReader(api API, source []byte) (*reader, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		return nil, err
	}
	r := &reader{url: "https://contract.invalid/" + string(api) + ".json", compiler: jsonschema.NewCompiler(), root: root}
	r.compiler.AssertFormat()
	return r, r.compiler.AddResource(r.url, root)
}

func load(api API) (*document, error) {
	r, err := newReader(api, sources[api])
	if err != nil {
		return nil, fmt.Errorf("contracttest: %s: %w", api, err)
	}
	d, err := r.document()
	if err != nil {
		return nil, fmt.Errorf("contracttest: %s: %w", api, err)
	}
	return d, nil
}

func (r *reader) document() (*document, error) {
	d := &document{}
	top := place{r.root, ""}
	for template, item := range members(r.member(top, "paths")) {
		for method := range members(item) {
			op, err := r.operation(strings.ToUpper(method), template, r.member(item, method))
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, template, err)
			}
			d.operations = append(d.operations, op)
		}
	}
	var err error
	if d.unmatched, err = r.operation("*", "(no route)", r.member(top, "x-unmatched")); err != nil {
		return nil, err
	}
	if preflight := r.member(top, "x-preflight"); preflight.value != nil {
		if d.preflight, err = r.operation("OPTIONS", "(preflight)", preflight); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (r *reader) operation(method, template string, at place) (*operation, error) {
	op := &operation{
		id: text(r.member(at, "operationId")), method: method, template: template,
		segments: strings.Split(template, "/"), responses: make(map[int]*response),
	}
	if op.id == "" {
		op.id = template
	}
	var err error
	if body := r.member(at, "requestBody"); body.value != nil {
		op.bodyRequired, _ = r.member(body, "required").value.(bool)
		if op.body, err = r.content(body); err != nil {
			return nil, err
		}
	}
	responses := r.member(at, "responses")
	for name := range members(responses) {
		status, err := strconv.Atoi(name)
		if err != nil {
			return nil, fmt.Errorf("status %q is not a number", name)
		}
		if op.responses[status], err = r.response(r.member(responses, name)); err != nil {
			return nil, fmt.Errorf("%d: %w", status, err)
		}
	}
	return op, nil
}

func (r *reader) response(at place) (*response, error) {
	content, err := r.content(at)
	if err != nil {
		return nil, err
	}
	answer := &response{content: content}
	headers := r.member(at, "headers")
	for name := range members(headers) {
		h := r.member(headers, name)
		schema, err := r.schema(h)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		required, _ := r.member(h, "required").value.(bool)
		answer.headers = append(answer.headers, header{
			name: name, required: required, schema: schema,
			integer: text(r.member(r.member(h, "schema"), "type")) == "integer",
		})
	}
	return answer, nil
}

// content compiles the schemas of a body, by media type.
func (r *reader) content(at place) (map[string]*jsonschema.Schema, error) {
	content := r.member(at, "content")
	schemas := make(map[string]*jsonschema.Schema)
	for mediaType := range members(content) {
		schema, err := r.schema(r.member(content, mediaType))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", mediaType, err)
		}
		schemas[mediaType] = schema
	}
	return schemas, nil
}

// schema compiles the schema of a media type or header.
func (r *reader) schema(at place) (*jsonschema.Schema, error) {
	schema := r.member(at, "schema")
	if schema.value == nil {
		return nil, fmt.Errorf("no schema at %s", at.pointer)
	}
	return r.compiler.Compile(r.url + "#" + schema.pointer)
}

// member goes one step down, and on to what is referred to there.
func (r *reader) member(at place, name string) place {
	object, _ := at.value.(map[string]any)
	return r.resolve(at.step(name, object[name]))
}

// item is member for lists.
func (r *reader) item(at place, i int) place {
	list, _ := at.value.([]any)
	return r.resolve(at.step(strconv.Itoa(i), list[i]))
}

func (r *reader) resolve(next place) place {
	referrer, _ := next.value.(map[string]any)
	if ref, ok := referrer["$ref"].(string); ok {
		next = place{r.root, ""}
		for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			next = r.member(next, step)
		}
	}
	return next
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func (at place) step(name string, value any) place {
	return place{value, at.pointer + "/" + pointerEscapes.Replace(name)}
}

func members(at place) map[string]place {
	object, _ := at.value.(map[string]any)
	found := make(map[string]place, len(object))
	for name, value := range object {
		found[name] = at.step(name, value)
	}
	return found
}

func text(at place) string {
	s, _ := at.value.(string)
	return s
}
