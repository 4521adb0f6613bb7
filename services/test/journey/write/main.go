// Command write writes the golden journey into a folder.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/memory-ledger/ledger/services/test/journey"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "write:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: write FOLDER")
	}
	files, err := journey.Files(context.Background())
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(args[0], name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
