package localpostgres

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAStrangersFolderIsRefused: a folder in /tmp may be another user's.
func TestAStrangersFolderIsRefused(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	open, link := filepath.Join(base, "open"), filepath.Join(base, "link")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(open, link); err != nil {
		t.Fatal(err)
	}
	if err := privateDir(nil, open); err != nil {
		t.Error(err)
	}
	if err := privateDir(nil, link); err == nil {
		t.Error("a link was used")
	}
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := privateDir(nil, open); err == nil {
		t.Error("a folder that others can enter was used")
	}
}
