package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/memory-ledger/ledger/infra/testkit"
)

// TestDocumentsAreUpToDate fails if a source was changed without running `go generate`.
func TestDocumentsAreUpToDate(t *testing.T) {
	services := filepath.Join("..", "..")
	for _, api := range []string{"core", "extension"} {
		made, err := bundle(
			read(t, filepath.Join(services, api, "openapi.yaml")), read(t, filepath.Join(services, "httpapi", "openapi.yaml")))
		testkit.Must(t, err)
		if !bytes.Equal(made, read(t, filepath.Join(services, api, "openapi.json"))) {
			t.Errorf("services/%s/openapi.json is out of date: run `make generate`", api)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	testkit.Must(t, err)
	return content
}
