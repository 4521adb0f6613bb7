package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestUpToDate: the generated documents match the variables of this build.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	compose, err := os.ReadFile("../../../../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files(string(compose)) {
		if got, err := os.ReadFile(filepath.Join("../../../..", name)); err != nil || string(got) != want {
			t.Errorf("%s is out of date, run make generate: %v", name, err)
		}
	}
}
