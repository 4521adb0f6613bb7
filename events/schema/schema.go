// Package schema generates the documents that describe the log to other programs: a JSON
// Schema (2020-12) of each type and version of an event, a JSON Schema of the message that
// carries events, and an AsyncAPI 3 document of the stream. make generate builds them from
// the catalogue, the Go types, and the comments of the Go types.
//
// Only the schema of the version that is written now can be generated: the Go types of
// older versions are gone. The schema files of older versions stay as they are, and the
// documents include them.
package schema

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events"
)

// object is a JSON object. Its members are written sorted by name, so that the
// same types always give the same bytes.
type object = map[string]any

const (
	dialect = "https://json-schema.org/draft/2020-12/schema"
	// BatchID names the schema of a message.
	BatchID = "urn:memory-ledger:message"
)

// FileName returns the name of the file, in this folder, that holds the schema of a version
// of a type.
func FileName(t events.Type, version int) string { return fmt.Sprintf("%s.v%d.json", t, version) }

// The documents besides the events' schemas.
const (
	BatchFile    = "batch.json"
	AsyncAPIFile = "asyncapi.json"
)

// Files returns all generated files of this folder. eventsDir is the folder of package
// events: its comments become descriptions, and the schemas of older versions are read
// from it.
func Files(eventsDir string) (map[string][]byte, error) {
	source, err := readSource(eventsDir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	data := map[string]object{} // by file name
	for _, definition := range events.Catalogue() {
		for version := 1; version < definition.Version; version++ {
			name := FileName(definition.Type, version)
			if data[name], err = readSchema(filepath.Join(eventsDir, "schema", name)); err != nil {
				return nil, fmt.Errorf("the schema of an older version is gone: %w", err)
			}
		}
		name := FileName(definition.Type, definition.Version)
		if data[name], err = dataSchema(source, &definition); err != nil {
			return nil, fmt.Errorf("%s: %w", definition.Type, err)
		}
		if files[name], err = Encode(data[name]); err != nil {
			return nil, err
		}
	}
	if files[BatchFile], err = Encode(batchSchema()); err != nil {
		return nil, err
	}
	files[AsyncAPIFile], err = Encode(asyncAPI(data))
	return files, err
}

func readSchema(path string) (object, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var schema object
	decoder := stdjson.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // a float can't hold the largest u64
	if err := decoder.Decode(&schema); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return schema, nil
}

// Encode returns v in the form of the project's generated JSON files, which people read
// too: indented, and without HTML escapes.
func Encode(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := stdjson.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(v)
	return out.Bytes(), err
}

// dataSchema describes the payload of the version that is written now.
func dataSchema(s *source, d *events.Definition) (object, error) {
	schema, err := s.members(reflect.TypeOf(d.New()).Elem())
	if err != nil {
		return nil, err
	}
	schema["$schema"], schema["$id"] = dialect, events.SchemaURI(d.Type, d.Version)
	schema["title"], schema["description"] = fmt.Sprintf("%s, version %d", d.Type, d.Version), d.Doc
	return schema, nil
}

func (s *source) members(t reflect.Type) (object, error) {
	properties, required := object{}, []string{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		property, err := s.property(field.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.Name, err)
		}
		if doc := s.fields[t.Name()+"."+field.Name]; doc != "" {
			if rest, named := strings.CutPrefix(doc, field.Name+" "); named {
				doc = name + " " + rest
			}
			property["description"] = doc
		}
		properties[name] = property
		if options == "" {
			required = append(required, name)
		} else if options != "omitzero" {
			return nil, fmt.Errorf("%s: no rule for the option %q", field.Name, options)
		}
	}
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}, nil
}

// property describes a value. The kinds of values are a closed set: a kind that is
// not listed stops the generator.
func (s *source) property(t reflect.Type) (object, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[events.Hash]():
		return object{"type": "string", "pattern": "^[0-9a-f]{64}$"}, nil
	case reflect.TypeFor[events.Timestamp]():
		return timestamp(), nil
	case reflect.TypeFor[[]byte]():
		return object{"type": "string", "contentEncoding": "base64", "pattern": "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"}, nil
	case reflect.TypeFor[jsontext.Value]():
		return object{"type": "object"}, nil
	}
	switch t.Kind() {
	case reflect.String:
		if t.PkgPath() == "" {
			return object{"type": "string"}, nil
		}
		if values := s.constants[t.Name()]; len(values) > 0 {
			return object{"type": "string", "enum": values}, nil
		}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0, "maximum": uint64(1<<64 - 1)}, nil
	case reflect.Int:
		return object{"type": "integer", "minimum": 0, "maximum": 1<<31 - 1}, nil
	case reflect.Slice:
		items, err := s.property(t.Elem())
		return object{"type": "array", "items": items}, err
	case reflect.Struct:
		return s.members(t)
	}
	return nil, fmt.Errorf("no rule for a %v", t)
}

func timestamp() object {
	return object{"type": "string", "format": "date-time", "pattern": `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`}
}

// envelope describes the attributes that every event has, in CloudEvents' JSON.
func envelope() object {
	text := func(doc string) object { return object{"type": "string", "minLength": 1, "description": doc} }
	at := timestamp()
	at["description"] = "When it was decided."
	return object{
		"type": "object",
		"properties": object{
			"specversion":     object{"const": "1.0"},
			"id":              text("UUIDv7, unique."),
			"source":          text(`URI reference of the service that decided it: "/core", "/extension", "/anchorer".`),
			"type":            object{"type": "string"},
			"subject":         object{"type": "string", "pattern": "^[1-9A-HJ-NP-Za-km-z]{32,44}$", "description": "The owner's public key, base58."},
			"time":            at,
			"datacontenttype": object{"const": "application/json"},
			"dataschema":      object{"type": "string"},
			"ownerversion": object{
				"type": "integer", "minimum": 1, "maximum": 1<<31 - 1,
				"description": "Counts the messages of the owner within a family, from 1. All events of a message share it.",
			},
			"commandid":   text("Names the command. All events of a message share it."),
			"traceparent": text("W3C trace context of the request, where it was traced."),
			"data":        object{"type": "object"},
		},
		"required":             []string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "ownerversion", "commandid", "data"},
		"additionalProperties": false,
	}
}

func alternative(t events.Type, version int, data string) object {
	return object{
		"properties": object{
			"type":       object{"const": string(t)},
			"dataschema": object{"const": events.SchemaURI(t, version)},
			"data":       object{"$ref": data},
		},
	}
}

// batchSchema describes a message on any subject.
func batchSchema() object {
	var alternatives []object
	for _, d := range events.Catalogue() {
		for version := 1; version <= d.Version; version++ {
			alternatives = append(alternatives, alternative(d.Type, version, events.SchemaURI(d.Type, version)))
		}
	}
	return object{
		"$schema": dialect, "$id": BatchID, "title": "A message of the log",
		"description": "One command: a CloudEvents 1.0 JSON batch (" + events.ContentType + ").",
		"type":        "array", "minItems": 1,
		"items": object{"allOf": []any{object{"$ref": "#/$defs/envelope"}, object{"oneOf": alternatives}}},
		"$defs": object{"envelope": envelope()},
	}
}

// sorted returns the names of the schemas in a stable order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

//go:generate go run ./write ..

const (
	pageBegin = "<!-- the catalogue, by make generate -->\n"
	pageEnd   = "<!-- end of the catalogue -->\n"
)

// Page puts the catalogue's table into its place in docs/events.md.
func Page(page []byte) ([]byte, error) {
	before, rest, found := strings.Cut(string(page), pageBegin)
	_, after, closed := strings.Cut(rest, pageEnd)
	if !found || !closed {
		return nil, errors.New("no place for the catalogue")
	}
	var table strings.Builder
	table.WriteString("\n| type | versions | subjects | what it says |\n|---|---|---|---|\n")
	for _, d := range events.Catalogue() {
		var versions, subjects []string
		for version := 1; version <= d.Version; version++ {
			versions = append(versions, fmt.Sprintf("[%d](../events/schema/%s)", version, FileName(d.Type, version)))
		}
		for _, kind := range d.Kinds {
			subjects = append(subjects, string(kind))
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", d.Type, strings.Join(versions, ", "), strings.Join(subjects, ", "), d.Doc)
	}
	return []byte(before + pageBegin + table.String() + "\n" + pageEnd + after), nil
}

// source holds what reflection can't see in the payloads: comments, and the constants of
// each named string type.
type source struct {
	fields    map[string]string   // "Type.Field": its comment
	constants map[string][]string // type name: its values
}

func readSource(eventsDir string) (*source, error) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(eventsDir, "data.go"), nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("read the payloads' source: %w", err)
	}
	s := &source{fields: map[string]string{}, constants: map[string][]string{}}
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				s.addStruct(spec)
			case *ast.ValueSpec:
				if err := s.addConstant(spec); err != nil {
					return nil, err
				}
			}
		}
	}
	return s, nil
}

func (s *source) addStruct(spec *ast.TypeSpec) {
	structure, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range structure.Fields.List {
		comment := field.Doc
		if comment == nil {
			comment = field.Comment
		}
		for _, name := range field.Names {
			s.fields[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(comment.Text()), " ")
		}
	}
}

func (s *source) addConstant(spec *ast.ValueSpec) error {
	named, ok := spec.Type.(*ast.Ident)
	if !ok {
		return nil
	}
	for _, value := range spec.Values {
		literal, ok := value.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			return err
		}
		s.constants[named.Name] = append(s.constants[named.Name], text)
	}
	return nil
}
