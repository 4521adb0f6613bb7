// Command write writes the generated files of package schema, and the
// catalogue's table into the page that explains it:
//
//	write EVENTS-FOLDER
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/memory-ledger/ledger/events/schema"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: write EVENTS-FOLDER")
	}
	files, err := schema.Files(args[0])
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(args[0], "schema", name), content, 0o644); err != nil {
			return err
		}
	}
	page := filepath.Join(args[0], "..", "docs", "events.md")
	before, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	after, err := schema.Page(before)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, after, 0o644)
}
