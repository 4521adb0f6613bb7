package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// checked repairs what models often get wrong in the arguments of a tool, and checks the
// rest. Members that are null, and optional texts and lists that are empty, are left out. A
// list, an object, a number or a boolean may come as JSON text, a list of one object as the
// object. A limit that is too large is lowered. Everything else must be as the schema says;
// otherwise the error names the wrong fields and shows a right call.
func checked(tool string, schema *jsonschema.Schema, arguments json.RawMessage, example string) (json.RawMessage, error) {
	var c checker
	var sent any
	if len(arguments) > 0 {
		if err := json.Unmarshal(arguments, &sent); err != nil {
			c.complain("the arguments", "hold a number that is too large")
		}
	}
	if sent == nil {
		sent = map[string]any{}
	}
	good := c.value("", schema, sent)
	if len(c.wrong) > 0 {
		if more := len(c.wrong) - 5; more > 0 {
			c.wrong = append(c.wrong[:5], fmt.Sprintf("%d more fields are wrong", more))
		}
		return nil, &problem{fmt.Sprintf("%s did nothing: %s. A right call: %s", tool, strings.Join(c.wrong, "; "), example)}
	}
	return json.Marshal(good)
}

// checker collects what is wrong with arguments.
type checker struct{ wrong []string }

func (c *checker) complain(path, format string, args ...any) {
	if path == "" {
		path = "the arguments"
	}
	c.wrong = append(c.wrong, path+" "+fmt.Sprintf(format, args...))
}

func (c *checker) value(path string, schema *jsonschema.Schema, v any) any {
	if text, ok := v.(string); ok && schema.Type != "string" {
		v = decoded(text)
	}
	switch schema.Type {
	case "object":
		if object, ok := v.(map[string]any); ok {
			return c.object(path, schema, object)
		}
		c.complain(path, "must be an object")
	case "array":
		if object, ok := v.(map[string]any); ok && schema.Items.Type == "object" {
			v = []any{object}
		}
		if list, ok := v.([]any); ok {
			return c.list(path, schema, list)
		}
		c.complain(path, "must be a list")
	case "integer":
		return c.integer(path, schema, v)
	case "boolean":
		if _, ok := v.(bool); !ok {
			c.complain(path, "must be true or false")
		}
	case "string":
		if text, ok := v.(string); ok {
			c.text(path, schema, text)
		} else {
			c.complain(path, "must be a text")
		}
	}
	return v
}

// decoded returns the value of a JSON text, or the text if it is not I-JSON.
func decoded(text string) (v any) {
	if !jsontext.Value(text).IsValid() || json.Unmarshal([]byte(text), &v) != nil {
		return text
	}
	return v
}

// free reports whether an object may have members that its schema does not name.
func free(schema *jsonschema.Schema) bool {
	return schema.AdditionalProperties == nil || schema.AdditionalProperties.Not == nil
}

func (c *checker) object(path string, schema *jsonschema.Schema, object map[string]any) any {
	if free(schema) {
		return object
	}
	good := map[string]any{}
	known := " (known: " + strings.Join(slices.Sorted(maps.Keys(schema.Properties)), ", ") + ")" // told once
	for _, name := range slices.Sorted(maps.Keys(object)) {
		member, there := schema.Properties[name]
		required := slices.Contains(schema.Required, name)
		switch v := object[name]; {
		case !there:
			c.complain(memberOf(path, name), "is unknown%s", known)
			known = ""
		case v == nil, !required && isEmpty(v):
		default:
			good[name] = c.value(memberOf(path, name), member, v)
		}
	}
	for _, name := range schema.Required {
		if object[name] == nil {
			c.complain(memberOf(path, name), "is missing")
		}
	}
	return good
}

// isEmpty reports whether a value is what models send for a member that they leave out.
func isEmpty(v any) bool {
	list, ok := v.([]any)
	return v == "" || ok && len(list) == 0
}

func memberOf(path, name string) string {
	if utf8.RuneCountInString(name) > 60 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || !strconv.IsPrint(r) }) {
		short := []rune(name)
		name = strconv.Quote(string(short[:min(len(short), 60)]))
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func (c *checker) list(path string, schema *jsonschema.Schema, list []any) any {
	if n := len(list); n < *schema.MinItems || n > *schema.MaxItems {
		c.complain(path, "must have %d to %d elements, not %d", *schema.MinItems, *schema.MaxItems, n)
		return nil
	}
	good := make([]any, len(list))
	for i, v := range list {
		good[i] = c.value(fmt.Sprintf("%s[%d]", path, i), schema.Items, v)
	}
	return good
}

// limitName is the number that is lowered where it is too large: fewer memories than
// were asked for do no harm, while a link that lives longer than was asked for would.
const limitName = "limit"

func (c *checker) integer(path string, schema *jsonschema.Schema, v any) any {
	n, ok := v.(float64)
	switch {
	case !ok || n != float64(int64(n)):
		c.complain(path, "must be a whole number")
	case path == limitName && n > *schema.Maximum:
		return *schema.Maximum
	case schema.Minimum != nil && n < *schema.Minimum:
		c.complain(path, "must be at least %v", *schema.Minimum)
	case schema.Maximum != nil && n > *schema.Maximum:
		c.complain(path, "must be at most %v", *schema.Maximum)
	}
	return v
}

func (c *checker) text(path string, schema *jsonschema.Schema, text string) {
	n := utf8.RuneCountInString(text)
	switch {
	case schema.MinLength != nil && n < *schema.MinLength:
		c.complain(path, "must not be empty")
	case schema.MaxLength != nil && n > *schema.MaxLength:
		c.complain(path, "must have at most %d characters, not %d", *schema.MaxLength, n)
	case schema.Enum != nil && !slices.Contains(schema.Enum, any(text)):
		c.complain(path, "must be one of %v", schema.Enum)
	}
}

// published returns the schema that clients get. Some models' interfaces refuse boolean
// schemas and objects without named members. So the schema does not say that other members
// are unknown, and names a member of objects that may have any.
func published(schema *jsonschema.Schema) *jsonschema.Schema {
	out := schema.CloneSchemas()
	visit(out, func(s *jsonschema.Schema) {
		s.AdditionalProperties = nil
		if s.Type == "object" && len(s.Properties) == 0 {
			s.Properties = map[string]*jsonschema.Schema{"source": {Description: "an example; any other members can stand beside it"}}
		}
	})
	return out
}

func visit(schema *jsonschema.Schema, f func(*jsonschema.Schema)) {
	f(schema)
	for _, member := range schema.Properties {
		visit(member, f)
	}
	if schema.Items != nil {
		visit(schema.Items, f)
	}
}
