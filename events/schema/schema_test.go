package schema_test

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/schema"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

const golden = "../testdata/golden"

func TestFilesAreCurrent(t *testing.T) {
	t.Parallel()
	files, err := schema.Files("..")
	must(t, err)
	for name, want := range files {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is out of date (%v): run make generate; if a payload has another form now, raise its version first", name, err)
		}
	}
	page, err := os.ReadFile("../../docs/events.md")
	must(t, err)
	if want, err := schema.Page(page); err != nil || !bytes.Equal(page, want) {
		t.Errorf("docs/events.md is out of date (%v): run make generate", err)
	}
}

// TestNoStraySchema: every file is of a version that the catalogue knows.
func TestNoStraySchema(t *testing.T) {
	t.Parallel()
	known := []string{schema.BatchFile, schema.AsyncAPIFile}
	for _, d := range events.Catalogue() {
		for version := 1; version <= d.Version; version++ {
			known = append(known, schema.FileName(d.Type, version))
		}
	}
	for _, name := range glob(t, "*.json") {
		if !slices.Contains(known, name) {
			t.Errorf("%s: no such version", name)
		}
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatal(pattern, paths, err)
	}
	return paths
}

func parse(t *testing.T, raw []byte) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	must(t, err)
	return value
}

// validators returns the schemas that a message is checked by: the schema of any message,
// from the files, and the schemas in the AsyncAPI document, one per channel.
func validators(t *testing.T) (message *jsonschema.Schema, channels map[string]*jsonschema.Schema) {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	for _, name := range glob(t, "*.json") {
		raw, err := os.ReadFile(name)
		must(t, err)
		document := parse(t, raw)
		id := "https://schema.invalid/asyncapi.json"
		if name != schema.AsyncAPIFile {
			id = document.(map[string]any)["$id"].(string)
		}
		must(t, compiler.AddResource(id, document))
	}
	message, err := compiler.Compile(schema.BatchID)
	must(t, err)
	channels = map[string]*jsonschema.Schema{}
	for _, kind := range []string{"ledger-memory", "ledger-grant", "ledger-session", "ledger-key", "chain-batch", "chain-stake"} {
		at := "https://schema.invalid/asyncapi.json#/components/messages/" + kind + "/payload"
		if channels[kind], err = compiler.Compile(at); err != nil {
			t.Fatal(err)
		}
	}
	return message, channels
}

// TestGoldenFilesAreValid: every golden file is valid by the schema of its version, and on
// exactly the channels that the catalogue names.
func TestGoldenFilesAreValid(t *testing.T) {
	t.Parallel()
	message, channels := validators(t)
	for _, d := range events.Catalogue() {
		for version := 1; version <= d.Version; version++ {
			raw, err := os.ReadFile(filepath.Join(golden, schema.FileName(d.Type, version)))
			must(t, err)
			value := parse(t, raw)
			if err := message.Validate(value); err != nil {
				t.Errorf("%s: %v", d.Type, err)
			}
			for name, channel := range channels {
				_, kind, _ := strings.Cut(name, "-")
				if err := channel.Validate(value); (err == nil) != slices.Contains(d.Kinds, events.SubjectKind(kind)) {
					t.Errorf("%s on %s: %v", d.Type, name, err)
				}
			}
		}
	}
}

// TestMutatedGoldenFilesAreRefused removes every member, gives it a value of another kind,
// and adds a member.
func TestMutatedGoldenFilesAreRefused(t *testing.T) {
	t.Parallel()
	message, _ := validators(t)
	for _, path := range glob(t, filepath.Join(golden, "*.json")) {
		raw, err := os.ReadFile(path)
		must(t, err)
		optional := optionalOf(t, filepath.Base(path))
		refuse := func(what string, mutate func(event, data map[string]any)) {
			value := parse(t, raw)
			event := value.([]any)[0].(map[string]any)
			mutate(event, event["data"].(map[string]any))
			var invalid *jsonschema.ValidationError
			if err := message.Validate(value); !errors.As(err, &invalid) {
				t.Errorf("%s, %s: %v", path, what, err)
			}
		}
		event := parse(t, raw).([]any)[0].(map[string]any)
		for name := range event {
			if name != "traceparent" {
				refuse("without "+name, func(event, _ map[string]any) { delete(event, name) })
			}
			refuse("another "+name, func(event, _ map[string]any) { event[name] = true })
		}
		for name := range event["data"].(map[string]any) {
			if !slices.Contains(optional, name) {
				refuse("without data."+name, func(_, data map[string]any) { delete(data, name) })
			}
			refuse("another data."+name, func(_, data map[string]any) { data[name] = true })
		}
		refuse("one more", func(event, _ map[string]any) { event["extra"] = "1" })
		refuse("one more in data", func(_, data map[string]any) { data["extra"] = "1" })
		refuse("of a later version", func(event, _ map[string]any) { event["dataschema"] = fmt.Sprint(event["dataschema"], "9") })
	}
	if err := message.Validate(parse(t, []byte("[]"))); err == nil {
		t.Error("an empty batch is valid")
	}
}

func optionalOf(t *testing.T, name string) []string {
	t.Helper()
	raw, err := os.ReadFile(name)
	must(t, err)
	var s struct {
		Properties map[string]any
		Required   []string
	}
	must(t, stdjson.Unmarshal(raw, &s))
	var optional []string
	for name := range s.Properties {
		if !slices.Contains(s.Required, name) {
			optional = append(optional, name)
		}
	}
	return optional
}

// TestReferencesLeadSomewhere follows every reference of the AsyncAPI document.
func TestReferencesLeadSomewhere(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(schema.AsyncAPIFile)
	must(t, err)
	root := parse(t, raw)
	seen := 0
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			if ref, ok := value["$ref"].(string); ok {
				seen++
				at := root
				for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
					at, ok = at.(map[string]any)[name]
					if !ok {
						t.Fatalf("%s leads nowhere", ref)
					}
				}
			}
			for _, member := range value {
				walk(member)
			}
		case []any:
			for _, element := range value {
				walk(element)
			}
		}
	}
	walk(root)
	if seen < len(events.Catalogue()) {
		t.Errorf("only %d references", seen)
	}
}
