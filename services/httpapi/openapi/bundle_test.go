package openapi_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/httpapi/openapi"
)

// TestDocumentsAreUpToDate fails if a source was changed without running `go generate`.
func TestDocumentsAreUpToDate(t *testing.T) {
	services := filepath.Join("..", "..")
	for _, api := range []string{"core", "extension"} {
		made, err := openapi.Bundle(
			read(t, filepath.Join(services, api, "openapi.yaml")), read(t, filepath.Join(services, "httpapi", "openapi.yaml")))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(made, read(t, filepath.Join(services, api, "openapi.json"))) {
			t.Errorf("services/%s/openapi.json is out of date: run `make generate`", api)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

const own = `
openapi: 3.1.1
paths:
  /a: { get: { responses: { "200": { description: d }, "400": { $ref: "#/components/responses/Mine" } } } }
  /b: { get: { responses: { "200": { description: d }, "500": null } } }
components:
  responses: { Mine: { description: mine } }
  schemas: { Unused: { $ref: "#/components/schemas/AlsoUnused" }, Own: { type: [string, "null"] } }
`

const common = `
x-every-operation: { responses: { "400": { description: common }, "500": { $ref: "#/components/responses/Fault" } } }
x-every-response: { headers: { X: { $ref: "#/components/headers/X" } } }
x-unmatched: { responses: { "404": { $ref: "#/components/responses/Nowhere" } } }
components:
  headers: { X: { schema: { $ref: "#/components/schemas/Own" } } }
  responses: { Fault: { description: fault }, Nowhere: { description: nowhere } }
  schemas: { AlsoUnused: { type: integer } }
`

func TestBundle(t *testing.T) {
	document, err := openapi.Bundle([]byte(own), []byte(common))
	if err != nil {
		t.Fatal(err)
	}
	const header = `"headers":{"X":{"$ref":"#/components/headers/X"}}`
	want := `{"openapi":"3.1.1","paths":{"/a":{"get":{"responses":{` +
		`"200":{"description":"d",` + header + `},"400":{"$ref":"#/components/responses/Mine"},` +
		`"500":{"$ref":"#/components/responses/Fault"}}}},` +
		`"/b":{"get":{"responses":{"200":{"description":"d",` + header + `},"400":{"description":"common",` + header + `}}}}},` +
		`"x-unmatched":{"responses":{"404":{"description":"nowhere",` + header + `},` +
		`"400":{"description":"common",` + header + `},"500":{"$ref":"#/components/responses/Fault"}}},` +
		`"components":{"responses":{"Mine":{"description":"mine",` + header + `},"Fault":{"description":"fault",` + header + `}},` +
		`"schemas":{"Own":{"type":["string","null"]}},"headers":{"X":{"schema":{"$ref":"#/components/schemas/Own"}}}}}`
	if got := compact(document); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// compact removes white space. The fixture's texts contain none.
func compact(document []byte) string { return strings.Join(strings.Fields(string(document)), "") }

func TestBundleRefuses(t *testing.T) {
	for name, sources := range map[string][]string{
		"a value in both sources":          {"info: {title: a}", "info: {title: b}"},
		"a list":                           {"[]"},
		"broken YAML":                      {"a: [", ""},
		"a date that is not quoted":        {"example: 2026-03-01T09:30:00.000Z"},
		"a number that JSON does not know": {"example: 0x10"},
		"an alias":                         {"a: &a {b: 1}\nc: *a"},
	} {
		var bytes [][]byte
		for _, source := range sources {
			bytes = append(bytes, []byte(source))
		}
		if document, err := openapi.Bundle(bytes...); err == nil {
			t.Errorf("%s: made %s", name, document)
		}
	}
}
