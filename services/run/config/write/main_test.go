package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// TestTheyAreMadeByGoGenerate: the command that the generated documents name makes them.
func TestTheyAreMadeByGoGenerate(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "generate", "-n", "..").CombinedOutput() // only says what it would do
	if err != nil || !strings.Contains(string(out), "go run ./write ../../..") {
		t.Errorf("%s, %v", out, err)
	}
}
