package contracttest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// every calls visit for every operation of both documents, and for Unmatched and
// Preflight.
func every(t *testing.T, visit func(name string, d *document, op *operation)) {
	t.Helper()
	for api := range documents {
		d, err := documentOf(api)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range slices.Concat(d.operations, []*operation{d.Unmatched, d.Preflight}) {
			if op != nil {
				visit(fmt.Sprintf("%s: %s %s", api, op.method, op.template), d, op)
			}
		}
	}
}

// TestExamples: every body of every operation and status has examples, and the
// examples fit the schemas.
func TestExamples(t *testing.T) {
	examples := 0
	check := func(name string, content map[string]media) {
		for mediaType, m := range content {
			if len(m.Examples) == 0 {
				t.Errorf("%s: %s has no example", name, mediaType)
			}
			for title, example := range m.Examples {
				examples++
				if err := m.Schema.validate(example.Value); err != nil {
					t.Errorf("%s: example %s: %s", name, title, explain(err))
				}
			}
		}
	}
	every(t, func(name string, _ *document, op *operation) {
		if op.Body != nil {
			check(name+": request", op.Body.Content)
		}
		for status, response := range op.Responses {
			check(fmt.Sprint(name, ": ", status), response.Content)
		}
	})
	if examples < 200 {
		t.Errorf("only %d examples were looked at", examples)
	}
}

// TestParameters: a parameter has a description, a schema, and an example that
// fits it.
func TestParameters(t *testing.T) {
	every(t, func(name string, _ *document, op *operation) {
		for _, p := range op.Parameters {
			if p.Schema == nil || p.Description == "" {
				t.Errorf("%s: parameter %s has no schema or no description", name, p.Name)
			} else if err := p.Schema.validate(p.Example); err != nil {
				t.Errorf("%s: parameter %s: %v", name, p.Name, err)
			}
		}
	})
}

// TestStatuses: a status that a kind of operation can return is documented for all
// operations of that kind.
func TestStatuses(t *testing.T) {
	// These use neither log nor database, so nothing in them can fail.
	independent := []string{"/health", "/livez", "/metrics", "/openapi.json", "/connect", "/", "/app", "/app/", "/app/{file}", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"}
	every(t, func(name string, d *document, op *operation) {
		if op == d.Preflight {
			return
		}
		matched := op != d.Unmatched
		want := map[int]bool{400: true, 408: true, 413: true, 431: true, 500: matched && !slices.Contains(independent, op.template)}
		if matched {
			want[401] = len(op.Security) > 0 || op.template == "/auth/verify" || op.template == "/erasure"
			want[415] = op.Body != nil && op.ID != "openCase" // a body that is not the page's form changes nothing there
			want[503] = true                                  // a stopping service refuses every request
			// Unknown MCP methods; / is for browsers only; a new memory may supersede others; no import.
			want[404] = strings.Contains(op.template, "{") || slices.Contains([]string{"/mcp", "/", "/app"}, op.template) || slices.Contains([]string{"createMemory", "createMemories", "giveUpImport"}, op.ID)
		}
		for status, expected := range want {
			if has := op.Responses[status] != nil; has != expected {
				t.Errorf("%s: %d documented: %v", name, status, has)
			}
		}
	})
}

// TestAnswersAreClosed: the objects of our answers have the documented members
// and no others, and all of a schema's required members are described.
func TestAnswersAreClosed(t *testing.T) {
	every(t, func(name string, _ *document, op *operation) {
		for status, response := range op.Responses {
			for m := range maps.Values(response.Content) {
				closed(t, fmt.Sprint(name, ": ", status), m.Schema.Schema)
			}
		}
	})
}

func closed(t *testing.T, at string, s *jsonschema.Schema) {
	t.Helper()
	if s == nil {
		return
	}
	for _, name := range s.Required {
		if s.Properties[name] == nil {
			t.Errorf("%s: %s is required but not described", at, name)
		}
	}
	if len(s.Properties) > 0 && s.AdditionalProperties == nil {
		t.Errorf("%s: an object does not say whether it is open", at)
	}
	for name, property := range s.Properties {
		closed(t, at+"/"+name, property)
	}
	closed(t, at, s.Ref)
	for _, some := range slices.Concat(s.AnyOf, s.AllOf) {
		closed(t, at, some)
	}
	closed(t, at+"/*", s.Items2020)
}
