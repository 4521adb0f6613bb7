package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"

	"go.yaml.in/yaml/v3"
)

// members yields the keys and values of a mapping, nothing for anything else.
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

// member returns a value of a mapping, nil if there is none.
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

// removeNulls takes the members out of a mapping that are null.
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

// operations returns every operation of the document, by its id's place.
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

// encode writes a node as indented JSON, its members in their order.
func encode(node *yaml.Node) ([]byte, error) {
	var compact, indented bytes.Buffer
	if err := write(&compact, node); err != nil {
		return nil, err
	}
	if err := json.Indent(&indented, compact.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	indented.WriteByte('\n')
	return indented.Bytes(), nil
}

func write(b *bytes.Buffer, node *yaml.Node) error {
	switch node.Kind {
	case yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i+1 < len(node.Content); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, node.Content[i].Value)
			b.WriteByte(':')
			if err := write(b, node.Content[i+1]); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	case yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range node.Content {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := write(b, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case yaml.ScalarNode:
		return writeScalar(b, node)
	default:
		return fmt.Errorf("line %d: aliases are not supported", node.Line)
	}
	return nil
}

func writeScalar(b *bytes.Buffer, node *yaml.Node) error {
	switch node.ShortTag() {
	case "!!str":
		writeString(b, node.Value)
	case "!!null":
		b.WriteString("null")
	case "!!bool", "!!int", "!!float":
		if !json.Valid([]byte(node.Value)) {
			return fmt.Errorf("line %d: %s is not JSON; quote it", node.Line, node.Value)
		}
		b.WriteString(node.Value)
	default:
		return fmt.Errorf("line %d: %s is a %s; quote it", node.Line, node.Value, node.ShortTag())
	}
	return nil
}

func writeString(b *bytes.Buffer, s string) {
	encoder := json.NewEncoder(b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	b.Truncate(b.Len() - 1) // the newline
}
