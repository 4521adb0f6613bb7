package openapi

import (
	"bytes"
	"errors"
	"fmt"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

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
