package localpostgres

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memory-ledger/ledger/infra/testkit"
)

// TestAStrangersFolderIsRefused: a folder in /tmp may be another user's.
func TestAStrangersFolderIsRefused(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	open, link := filepath.Join(base, "open"), filepath.Join(base, "link")
	testkit.Must(t, os.Mkdir(open, 0o700))
	testkit.Must(t, os.Symlink(open, link))
	if err := privateDir(nil, open); err != nil {
		t.Error(err)
	}
	if err := privateDir(nil, link); err == nil {
		t.Error("a link was used")
	}
	testkit.Must(t, os.Chmod(open, 0o755))
	if err := privateDir(nil, open); err == nil {
		t.Error("a folder that others can enter was used")
	}
}
