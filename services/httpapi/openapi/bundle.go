// Package openapi makes the OpenAPI document that an API serves from two sources: the
// API's own, and the common source of both APIs.
//
// Two keys of the sources are instructions and not part of the document:
//
//	x-every-operation   responses that every operation has, unless it states its
//	                    own, or null: an answer that it can't give
//	x-every-response    headers that every response has, unless it states its own
//
// Components without a reference to them are left out. Everything else keeps its order.
// The bundlers of Redocly and libopenapi follow references but have no such instructions.
package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// Keys of the sources that Bundle interprets.
const (
	everyOperation = "x-every-operation"
	everyResponse  = "x-every-response"
	unmatched      = "x-unmatched"
)

// Bundle merges sources, the API's own first, and returns the document as
// indented JSON.
func Bundle(sources ...[]byte) ([]byte, error) {
	document := &yaml.Node{Kind: yaml.MappingNode}
	for i, source := range sources {
		var parsed yaml.Node
		if err := yaml.Unmarshal(source, &parsed); err != nil {
			return nil, fmt.Errorf("source %d: %w", i, err)
		}
		if parsed.Kind != yaml.DocumentNode || parsed.Content[0].Kind != yaml.MappingNode {
			return nil, fmt.Errorf("source %d is not a mapping", i)
		}
		if err := merge(document, parsed.Content[0], ""); err != nil {
			return nil, fmt.Errorf("source %d: %w", i, err)
		}
	}
	spreadResponses(document)
	spreadHeaders(document)
	prune(document)
	moveToEnd(document, "components")
	return encode(document)
}

// merge adds the members of from to into. A key may be on both sides only if both
// values are mappings.
func merge(into, from *yaml.Node, at string) error {
	for key, value := range members(from) {
		old := member(into, key.Value)
		switch {
		case old == nil:
			into.Content = append(into.Content, key, value)
		case old.Kind == yaml.MappingNode && value.Kind == yaml.MappingNode:
			if err := merge(old, value, at+"/"+key.Value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s/%s is in more than one source", at, key.Value)
		}
	}
	return nil
}

// spreadResponses gives the common responses to every operation, and to the answers to
// requests that match no operation. A null takes a response out.
func spreadResponses(document *yaml.Node) {
	common := member(remove(document, everyOperation), "responses")
	spread := func(responses *yaml.Node) {
		addMissing(responses, common)
		removeNulls(responses)
	}
	for _, operation := range operations(document) {
		spread(member(operation, "responses"))
	}
	spread(member(member(document, unmatched), "responses"))
}

// spreadHeaders adds the common headers to every response.
func spreadHeaders(document *yaml.Node) {
	common := member(remove(document, everyResponse), "headers")
	add := func(responses *yaml.Node) {
		for _, response := range members(responses) {
			if member(response, "$ref") == nil {
				addMissing(ensureHeaders(response), common)
			}
		}
	}
	add(member(member(document, "components"), "responses"))
	for _, operation := range operations(document) {
		add(member(operation, "responses"))
	}
	for key, value := range members(document) {
		if isExtension(key) {
			add(member(value, "responses"))
		}
	}
}

// ensureHeaders returns the headers of a response. If there are none, it adds an empty
// mapping after the description, where a reader expects it.
func ensureHeaders(response *yaml.Node) *yaml.Node {
	if headers := member(response, "headers"); headers != nil {
		return headers
	}
	headers := &yaml.Node{Kind: yaml.MappingNode}
	key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: "headers"}
	at := min(2, len(response.Content))
	response.Content = append(response.Content[:at:at], append([]*yaml.Node{key, headers}, response.Content[at:]...)...)
	return headers
}

// addMissing adds the members that a mapping lacks, in the order of additions.
func addMissing(mapping, additions *yaml.Node) {
	if mapping == nil {
		return
	}
	for key, value := range members(additions) {
		if member(mapping, key.Value) == nil {
			mapping.Content = append(mapping.Content, key, value)
		}
	}
}

// prune removes components without a reference to them, and components that only removed
// ones refer to. If only an extension (x-…) refers to a component, prune writes the
// component out there: other programs don't look for references in extensions, and would
// report the component as unused.
func prune(document *yaml.Node) {
	used := make(map[string]bool)
	for key, value := range members(document) {
		if key.Value != "components" && !isExtension(key) {
			follow(document, value, used)
		}
	}
	for key, value := range members(document) {
		if isExtension(key) {
			writeOut(document, value, used)
		}
	}
	for kind, named := range members(member(document, "components")) {
		if kind.Value == "securitySchemes" {
			continue
		}
		var kept []*yaml.Node
		for name, component := range members(named) {
			if used["#/components/"+kind.Value+"/"+name.Value] {
				kept = append(kept, name, component)
			}
		}
		named.Content = kept
	}
}

func isExtension(key *yaml.Node) bool { return strings.HasPrefix(key.Value, "x-") }

// follow marks everything that a node refers to.
func follow(document, node *yaml.Node, used map[string]bool) {
	if ref := member(node, "$ref"); ref != nil && !used[ref.Value] {
		used[ref.Value] = true
		if target := resolve(document, ref.Value); target != nil {
			follow(document, target, used)
		}
	}
	for _, child := range node.Content {
		follow(document, child, used)
	}
}

// writeOut replaces each reference to a component that is not used elsewhere with the
// component itself.
func writeOut(document, node *yaml.Node, used map[string]bool) {
	if ref := member(node, "$ref"); ref != nil && !used[ref.Value] {
		if target := resolve(document, ref.Value); target != nil {
			*node = *target
		}
	}
	for _, child := range node.Content {
		writeOut(document, child, used)
	}
}

func resolve(document *yaml.Node, ref string) *yaml.Node {
	node := document
	for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		if node = member(node, name); node == nil {
			return nil
		}
	}
	return node
}

// members yields the keys and values of a mapping. For any other node it yields nothing.
func members(node *yaml.Node) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		if node == nil || node.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(node.Content); i += 2 {
			if !yield(node.Content[i], node.Content[i+1]) {
				return
			}
		}
	}
}

// member returns a value of a mapping, or nil if there is none.
func member(node *yaml.Node, name string) *yaml.Node {
	for key, value := range members(node) {
		if key.Value == name {
			return value
		}
	}
	return nil
}

// remove takes a member out of a mapping and returns it.
func remove(mapping *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			value := mapping.Content[i+1]
			mapping.Content = append(mapping.Content[:i:i], mapping.Content[i+2:]...)
			return value
		}
	}
	return nil
}

// removeNulls removes the null members from a mapping.
func removeNulls(mapping *yaml.Node) {
	var kept []*yaml.Node
	for key, value := range members(mapping) {
		if value.Tag != "!!null" {
			kept = append(kept, key, value)
		}
	}
	if mapping != nil {
		mapping.Content = kept
	}
}

func moveToEnd(mapping *yaml.Node, name string) {
	if value := remove(mapping, name); value != nil {
		key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}
		mapping.Content = append(mapping.Content, key, value)
	}
}

// operations returns every operation of the document, by its method and path.
func operations(document *yaml.Node) map[string]*yaml.Node {
	found := make(map[string]*yaml.Node)
	for path, item := range members(member(document, "paths")) {
		for method, operation := range members(item) {
			if member(operation, "responses") != nil {
				found[method.Value+" "+path.Value] = operation
			}
		}
	}
	return found
}

// encode returns a node as indented JSON. Members keep their order.
func encode(node *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	err := write(jsontext.NewEncoder(&b, jsontext.WithIndent("  ")), node)
	return b.Bytes(), err
}

func write(e *jsontext.Encoder, node *yaml.Node) error {
	switch node.Kind {
	case yaml.MappingNode:
		if err := e.WriteToken(jsontext.BeginObject); err != nil {
			return err
		}
		for key, value := range members(node) {
			if err := errors.Join(e.WriteToken(jsontext.String(key.Value)), write(e, value)); err != nil {
				return err
			}
		}
		return e.WriteToken(jsontext.EndObject)
	case yaml.SequenceNode:
		if err := e.WriteToken(jsontext.BeginArray); err != nil {
			return err
		}
		for _, item := range node.Content {
			if err := write(e, item); err != nil {
				return err
			}
		}
		return e.WriteToken(jsontext.EndArray)
	case yaml.AliasNode:
		return fmt.Errorf("line %d: aliases are not supported", node.Line)
	}
	var err error
	switch node.ShortTag() {
	case "!!str":
		err = e.WriteToken(jsontext.String(node.Value))
	case "!!null":
		err = e.WriteToken(jsontext.Null)
	case "!!bool", "!!int", "!!float":
		err = e.WriteValue(jsontext.Value(node.Value))
	default:
		err = errors.New("not a type of JSON")
	}
	if err != nil {
		return fmt.Errorf("line %d: %s, a %s: quote it: %w", node.Line, node.Value, node.ShortTag(), err)
	}
	return nil
}
