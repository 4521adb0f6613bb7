package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/infra/npm"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// windowless is Chromium without windows and extensions: the same pages in two thirds of the processor time.
const windowless = "chromium-headless-shell"

// chromium finds the browser, or one of these instead.
func chromium(t *testing.T, instead ...string) string {
	t.Helper()
	names := append([]string{os.Getenv("CHROMIUM")}, instead...)
	return browserProgram(t, "Chromium", append(names, "chromium", "chromium-browser", "/usr/bin/chromium",
		"/Applications/Chromium.app/Contents/MacOS/Chromium")...)
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
	stacktest.Lacking(t, browser+" is not here: `make deps` installs it, or "+strings.ToUpper(browser)+" names it")
	return ""
}

// modules fetches the driver's packages into the user's cache, once for each lock file,
// and returns the folder.
func modules(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile(filepath.Join("testdata", "driver", "package-lock.json"))
	must(t, err)
	dir, err := npm.Fetch(t.Context(), npm.CacheFolder(), npm.Set{Name: "browser", What: "what drives the browsers", Lock: lock}, nil)
	must(t, err)
	return dir
}
