package extension

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/httpapi/connect"
)

// TestRequestsHaveNoDefaults: type generators treat a member with a default as always
// present, and then `POST /agent-cases {}` does not compile.
func TestRequestsHaveNoDefaults(t *testing.T) {
	t.Parallel()
	var document struct {
		Components struct{ Schemas map[string]json.RawMessage }
	}
	if err := json.Unmarshal(OpenAPI, &document); err != nil || len(document.Components.Schemas) == 0 {
		t.Fatal(err)
	}
	for name, schema := range document.Components.Schemas {
		if strings.Contains(string(schema), `"default"`) {
			t.Errorf("%s has a default: say it in the description", name)
		}
	}
}

// TestTheDocumentIsAsStrictAsConnect: the document describes exactly the callbacks that
// the page accepts.
func TestTheDocumentIsAsStrictAsConnect(t *testing.T) {
	t.Parallel()
	var document struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema struct {
					Pattern   string
					MaxLength int
				}
			}
		}
	}
	must(t, json.Unmarshal(OpenAPI, &document))
	callback := document.Paths["/connect"]["get"].Parameters[0]
	pattern, err := regexp.Compile(callback.Schema.Pattern)
	if err != nil || callback.Name != "callback" {
		t.Fatal(callback, err)
	}
	chrome, uuid := strings.Repeat("a", 32), "0a1b2c3d-0a1b-4c3d-8e9f-0a1b2c3d4e5f"
	accepted := 0
	for _, scheme := range []string{"chrome-extension", "moz-extension", "safari-web-extension", "https", "Moz-extension"} {
		for _, id := range []string{chrome, strings.ToUpper(chrome), chrome[1:], uuid, strings.ToUpper(uuid), uuid[1:], ""} {
			for _, path := range []string{"/callback.html", "/a/b-c", "", "/", "/a//b", "/../a", "/a?b", "/a?b#c", "/a#b", "/a%2e", "/a.", "/.", "/%2e", "/.%2E", "/..", "/...", "/.a", "/..a", "/%2ea", "/a'", "/a b", "/a%2", "?", "?a=%20/?", "?'", "@b", ":1", "/" + strings.Repeat("a", 512)} {
				text := scheme + "://" + id + path
				_, refused := connect.ParseCallback(text)
				documented := pattern.MatchString(text) && len(text) <= callback.Schema.MaxLength
				if documented != (refused == nil) {
					t.Errorf("%s: documented %v, %v", text, documented, refused)
				}
				if documented {
					accepted++
				}
			}
		}
	}
	if accepted != 5*14 { // 14 tails of: a Chrome id, and Firefox's and Safari's in both cases
		t.Errorf("%d are accepted", accepted)
	}
}
