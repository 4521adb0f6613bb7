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
	"fmt"
	"strings"

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
