package contracttest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// every calls visit for every operation of both documents, and for what is
// described beside them.
func every(t *testing.T, visit func(name string, r *reader, at place)) {
	t.Helper()
	for api, source := range sources {
		r, err := newReader(api, source)
		if err != nil {
			t.Fatal(err)
		}
		top := place{r.root, ""}
		paths := r.member(top, "paths")
		for path := range members(paths) {
			item := r.member(paths, path)
			for method := range members(item) {
				visit(fmt.Sprintf("%s: %s %s", api, strings.ToUpper(method), path), r, r.member(item, method))
			}
		}
		for _, name := range []string{"x-unmatched", "x-preflight"} {
			if at := r.member(top, name); at.value != nil {
				visit(fmt.Sprintf("%s: %s", api, name), r, at)
			}
		}
	}
}

// TestExamples: every body of every operation and status has examples, and
// they are what the schemas ask for.
func TestExamples(t *testing.T) {
	examples := 0
	check := func(name string, r *reader, body place) {
		content := r.member(body, "content")
		for mediaType := range members(content) {
			at := r.member(content, mediaType)
			schema, err := r.schema(at)
			if err != nil {
				t.Fatal(err)
			}
			all := r.member(at, "examples")
			if len(members(all)) == 0 {
				t.Errorf("%s: %s has no example", name, mediaType)
			}
			for example := range members(all) {
				examples++
				value := r.member(r.member(all, example), "value").value
				if err := schema.Validate(value); err != nil {
					t.Errorf("%s: example %s: %s", name, example, explain(err))
				}
			}
		}
	}
	every(t, func(name string, r *reader, at place) {
		check(name+": request", r, r.member(at, "requestBody"))
		for status := range members(r.member(at, "responses")) {
			check(name+": "+status, r, r.member(r.member(at, "responses"), status))
		}
	})
	if examples < 200 {
		t.Errorf("only %d examples were looked at", examples)
	}
}

// TestParameters: a parameter has a description, a schema, and an example that
// fits it.
func TestParameters(t *testing.T) {
	every(t, func(name string, r *reader, at place) {
		list, _ := at.value.(map[string]any)["parameters"].([]any)
		for i := range list {
			p := r.item(r.member(at, "parameters"), i)
			schema, err := r.schema(p)
			if err != nil {
				t.Errorf("%s: parameter %d: %v", name, i, err)
				continue
			}
			if err := schema.Validate(r.member(p, "example").value); err != nil || text(r.member(p, "description")) == "" {
				t.Errorf("%s: parameter %s: %v", name, text(r.member(p, "name")), err)
			}
		}
	})
}

// TestStatuses: what can happen to a kind of operation is documented for all
// of them.
func TestStatuses(t *testing.T) {
	// Reached without log and database: there is nothing in them to fail.
	independent := []string{"/health", "/livez", "/metrics", "/openapi.json", "/connect", "/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"}
	every(t, func(name string, r *reader, at place) {
		if strings.Contains(name, ": x-preflight") {
			return
		}
		has := func(status string) bool { return r.member(r.member(at, "responses"), status).value != nil }
		path := name[strings.LastIndex(name, " ")+1:]
		alone := strings.Contains(name, ": x-") || slices.Contains(independent, path)
		want := map[string]bool{"400": true, "408": true, "413": true, "431": true, "500": !alone}
		if !strings.Contains(name, ": x-") {
			secured, _ := at.value.(map[string]any)["security"].([]any)
			want["401"] = len(secured) > 0 || path == "/auth/verify"
			want["415"] = r.member(at, "requestBody").value != nil
			want["503"] = true                                          // a service that stops refuses everything
			want["404"] = strings.Contains(path, "{") || path == "/mcp" // which has methods of its own
		}
		for status, expected := range want {
			if has(status) != expected {
				t.Errorf("%s: %s documented: %v", name, status, has(status))
			}
		}
	})
}

// TestAnswersAreClosed: the objects of our answers have the documented members
// and no others, and all of a schema's required members are described.
func TestAnswersAreClosed(t *testing.T) {
	every(t, func(name string, r *reader, at place) {
		for status := range members(r.member(at, "responses")) {
			content := r.member(r.member(r.member(at, "responses"), status), "content")
			for mediaType := range members(content) {
				schema, err := r.schema(r.member(content, mediaType))
				if err != nil {
					t.Fatal(err)
				}
				closed(t, name+": "+status, schema)
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
	for _, some := range append(slices.Clone(s.AnyOf), s.AllOf...) {
		closed(t, at, some)
	}
	closed(t, at+"/*", s.Items2020)
}
