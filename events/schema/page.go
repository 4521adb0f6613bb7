package schema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/memory-ledger/ledger/events"
)

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
