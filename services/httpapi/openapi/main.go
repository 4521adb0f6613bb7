// Command openapi writes the OpenAPI document that an API serves. It makes it from two
// sources, the API's own and the common source of both APIs:
//
//	openapi OUTPUT SOURCE [SOURCE]
//
// Two keys of the sources are instructions and not part of the document:
//
//	x-every-operation   responses that every operation has, unless it states its
//	                    own, or null: an answer that it can't give
//	x-every-response    headers that every response has, unless it states its own
//
// Components without a reference to them are left out. The document's keys are sorted.
// The bundlers of Redocly and libopenapi follow references but have no such instructions.
package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

type object = map[string]any

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "openapi:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: openapi OUTPUT SOURCE [SOURCE]")
	}
	var sources [][]byte
	for _, name := range args[1:] {
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		sources = append(sources, source)
	}
	document, err := bundle(sources...)
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], document, 0o644)
}

// bundle merges sources and returns the document as indented JSON.
func bundle(sources ...[]byte) ([]byte, error) {
	document := object{}
	for i, source := range sources {
		var parsed object
		err := yaml.Unmarshal(source, &parsed)
		if err == nil {
			err = merge(document, parsed, "")
		}
		if err != nil {
			return nil, fmt.Errorf("source %d: %w", i, err)
		}
	}
	spread(document)
	prune(document)
	return json.Marshal(document, json.Deterministic(true), jsontext.WithIndent("  "))
}

// merge adds the members of from to into. A key may be on both sides only if both
// values are objects.
func merge(into, from object, at string) error {
	for key, value := range from {
		old, there := into[key]
		below, isObject := old.(object)
		more, also := value.(object)
		switch {
		case !there:
			into[key] = value
		case !isObject || !also:
			return fmt.Errorf("%s/%s is in more than one source", at, key)
		default:
			if err := merge(below, more, at+"/"+key); err != nil {
				return err
			}
		}
	}
	return nil
}

// spread gives the common responses to every operation, and to the answers to requests that
// match no operation; a null takes a response out. It gives the common headers to every
// response.
func spread(document object) {
	responses := in(document, "x-every-operation", "responses")
	headers := in(document, "x-every-response", "headers")
	delete(document, "x-every-operation")
	delete(document, "x-every-response")
	operations := []object{in(document, "x-unmatched")}
	for _, item := range in(document, "paths") {
		for _, operation := range item.(object) {
			if operation, ok := operation.(object); ok {
				operations = append(operations, operation)
			}
		}
	}
	for _, operation := range operations {
		if own := in(operation, "responses"); own != nil {
			addMissing(own, responses)
			maps.DeleteFunc(own, func(_ string, response any) bool { return response == nil })
		}
	}
	for _, operation := range append(operations, in(document, "components"), in(document, "x-preflight")) {
		for _, response := range in(operation, "responses") {
			response := response.(object)
			if response["$ref"] != nil {
				continue
			}
			if response["headers"] == nil {
				response["headers"] = object{}
			}
			addMissing(in(response, "headers"), headers)
		}
	}
}

// in returns the object at a path of an object, or nil if there is none.
func in(of object, path ...string) object {
	for _, name := range path {
		of, _ = of[name].(object)
	}
	return of
}

func addMissing(to, additions object) {
	for key, value := range additions {
		if _, there := to[key]; !there {
			to[key] = value
		}
	}
}

// prune removes components without a reference to them, and components that only removed
// ones refer to.
func prune(document object) {
	used := map[string]bool{}
	for key, value := range document {
		if key != "components" {
			follow(document, value, used)
		}
	}
	for kind, named := range in(document, "components") {
		if kind != "securitySchemes" {
			maps.DeleteFunc(named.(object), func(name string, _ any) bool { return !used["#/components/"+kind+"/"+name] })
		}
	}
}

// follow marks everything that a value refers to.
func follow(document object, value any, used map[string]bool) {
	switch value := value.(type) {
	case object:
		if ref, ok := value["$ref"].(string); ok && !used[ref] {
			used[ref] = true
			follow(document, resolve(document, ref), used)
		}
		for _, child := range value {
			follow(document, child, used)
		}
	case []any:
		for _, child := range value {
			follow(document, child, used)
		}
	}
}

func resolve(document object, ref string) object {
	return in(document, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
}
