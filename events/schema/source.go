package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

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
