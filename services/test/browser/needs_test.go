package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lacking skips a test because something that it needs is missing. In CI it fails the
// test instead, because a skipped test would go unnoticed there.
func lacking(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// chromium finds the browser.
func chromium(t *testing.T) string {
	t.Helper()
	return browserProgram(t, "Chromium", os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "/usr/bin/chromium",
		"/Applications/Chromium.app/Contents/MacOS/Chromium")
}

// firefox finds the browser.
func firefox(t *testing.T) string {
	t.Helper()
	return browserProgram(t, "Firefox", os.Getenv("FIREFOX"), "firefox-esr", "firefox", "/Applications/Firefox.app/Contents/MacOS/firefox")
}

// browserProgram returns the path of the first of these programs that exists.
func browserProgram(t *testing.T, browser string, names ...string) string {
	t.Helper()
	for _, name := range names {
		if name == "" {
			continue
		}
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	lacking(t, browser+" is not here: `make deps` installs it, or "+strings.ToUpper(browser)+" names it")
	return ""
}

// modules installs the driver's packages into the user's cache, once for each lock file,
// and returns the folder.
func modules(t *testing.T) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		lacking(t, "npm is not here: install Node 20 or newer")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "memory-ledger", "browser")
	lock, err := os.ReadFile(filepath.Join("testdata", "driver", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(lock)
	dir := filepath.Join(cache, "modules-"+hex.EncodeToString(hash[:8]))
	if isDir(dir) {
		return dir
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	install(t, npm, cache, dir)
	return dir
}

// install works in a temporary folder and renames it into place. A crash leaves the
// temporary folder, which is never used. If two processes install at once, one result
// is kept.
func install(t *testing.T, npm, cache, dir string) {
	t.Helper()
	aside, err := os.MkdirTemp(cache, "installing-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(aside) }()
	for _, name := range []string{"package.json", "package-lock.json"} {
		content, err := os.ReadFile(filepath.Join("testdata", "driver", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(aside, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	cmd.Dir = aside
	if said, err := cmd.CombinedOutput(); err != nil {
		lacking(t, "npm can't install what drives the browsers: "+err.Error()+"\n"+string(said))
	}
	if err := os.Rename(aside, dir); err != nil && !isDir(dir) {
		t.Fatal(err)
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
