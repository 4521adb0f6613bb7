package localpostgres

import (
	"os"
	"path/filepath"
	"testing"
)

// elsewhere makes a home in base whose origin is dir.
func elsewhere(t *testing.T, base, dir string) string {
	t.Helper()
	home, err := os.MkdirTemp(base, homePrefix)
	if err != nil {
		t.Fatal(err)
	}
	if dir != "" {
		if err := os.WriteFile(filepath.Join(home, originName), []byte(dir), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return home
}

func link(t *testing.T, dir, home string) {
	t.Helper()
	if err := os.Symlink(home, filepath.Join(dir, elsewhereName)); err != nil {
		t.Fatal(err)
	}
}

func TestFollowLink(t *testing.T) {
	t.Parallel()
	base, moved := t.TempDir(), t.TempDir()
	home := elsewhere(t, base, filepath.Join(base, "old-name"))
	link(t, moved, home)
	if got, err := followLink(moved); err != nil || got != home {
		t.Errorf("a moved folder: %q, %v", got, err)
	}
	if origin, err := os.ReadFile(filepath.Join(home, originName)); err != nil || string(origin) != moved {
		t.Errorf("its origin: %q, %v", origin, err)
	}
	copied := t.TempDir()
	link(t, copied, home)
	if got, err := followLink(copied); err != nil || got != "" {
		t.Errorf("a copied folder got at the first one's home: %q, %v", got, err)
	}
	dangling := t.TempDir()
	link(t, dangling, filepath.Join(base, "gone"))
	for range 2 { // the second call no longer finds a link
		if got, err := followLink(dangling); err != nil || got != "" {
			t.Errorf("a home that is gone: %q, %v", got, err)
		}
	}
}
