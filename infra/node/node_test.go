package node

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/npm"
)

func TestNewEnough(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"v20.18.0": true, "v20.17.9": false, "v18.20.4": false, "v24.0.0": true, "v100.0.0": true, "": false, "v": false, "v20": false, "nonsense": false,
	} {
		if got := newEnough(version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

// TestFetched: without a Node on PATH, or with an old one, the fetched program is used.
func TestFetched(t *testing.T) {
	// Without PATH, npm can't say which registry it uses.
	if registry, err := exec.Command("npm", "config", "get", "registry").Output(); err == nil {
		t.Setenv("NPM_CONFIG_REGISTRY", strings.TrimSpace(string(registry)))
	}
	old := t.TempDir()
	if err := os.WriteFile(filepath.Join(old, "node"), []byte("#!/bin/sh\necho v18.20.4\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{t.TempDir(), old} {
		t.Setenv("PATH", path)
		program, err := Program(t.Context(), npm.CacheFolder(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := version(t.Context(), program); !newEnough(v) || filepath.Dir(program) == path {
			t.Errorf("%s is of version %q", program, v)
		}
	}
}
