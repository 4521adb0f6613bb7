package localpostgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSocketsOfLongPaths(t *testing.T) {
	t.Parallel()
	if got := socketsOf("/srv/data"); got != "/srv/data/sock" {
		t.Errorf("got %s", got)
	}
	for _, home := range []string{"/srv/a,b", "/srv/" + strings.Repeat("long/", 20)} {
		if got := socketsOf(home); !strings.HasPrefix(got, "/tmp/ledger-pg-") || got != socketsOf(home) || got == socketsOf(home+"x") {
			t.Errorf("%s: got %s", home, got)
		}
	}
}

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
