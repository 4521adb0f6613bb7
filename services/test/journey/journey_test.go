package journey_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/memory-ledger/ledger/infra/node"
	"github.com/memory-ledger/ledger/infra/npm"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/test/journey"
)

var must = testkit.Must

const folder = "../../../docs/journey"

var update = flag.Bool("update", false, "write the files anew")

func TestFilesAreCurrent(t *testing.T) {
	files, err := journey.Files(t.Context())
	must(t, err)
	for name, want := range files {
		if *update {
			must(t, os.WriteFile(filepath.Join(folder, name), want, 0o644))
		}
		if got, err := os.ReadFile(filepath.Join(folder, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is out of date (%v): run make generate", name, err)
		}
	}
	there, err := filepath.Glob(filepath.Join(folder, "*.json*"))
	if err != nil || len(there) != len(files) {
		t.Errorf("%d files, want %d, %v", len(there), len(files), err)
	}
}

// TestWithoutGo runs the page's verifier, in another language: what joins the files holds.
func TestWithoutGo(t *testing.T) {
	t.Parallel()
	program, err := node.Program(t.Context(), npm.CacheFolder(), nil)
	must(t, err)
	if out, err := exec.Command(program, filepath.Join(folder, "verify.mjs")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
