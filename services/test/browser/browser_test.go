// Package browser holds the tests that need a browser. They test the sign-in page and the
// extension API's answers to other origins in a real Chromium, with a real extension,
// against the real API. They test the dashboard and the product's own extension in
// Chromium and Firefox. They test the TypeScript client and its example page against the
// core API, in Chromium, Node, Deno and Bun. A proxy
// checks the extension API's answers to the browser against the API's OpenAPI document.
//
// `make verify` runs them. They need Node 20, Chromium and Firefox; if one is missing, the
// tests say so and are skipped, except in CI (CI=true), where they fail. `make deps`
// installs them.
//
// LEDGER_SCREENSHOTS names a folder that gets a picture of every state of the
// page; LEDGER_SCENARIOS is a regular expression that picks scenarios.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/npm"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

var must, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

func TestMain(m *testing.M) { pgtest.Main(m) }

// limit bounds the browser's part. On a machine with five times the load of its cores, it
// took more than six minutes.
const limit = 10 * time.Minute

// setting is the input of a driver, which reads what it needs.
type setting struct {
	API         string `json:"api"`
	Core        string `json:"core"`     // of another service: a connection of the extension knows only its own
	Listed      string `json:"listed"`   // a site on the API's list
	Unlisted    string `json:"unlisted"` // a site that is not on the list
	Chromium    string `json:"chromium"`
	Firefox     string `json:"firefox"`
	Modules     string `json:"modules"`
	Profile     string `json:"profile"`
	Extension   string `json:"extension"`
	ExtensionID string `json:"extensionId"`
	Screenshots string `json:"screenshots"`
	Only        string `json:"only"`
}

// outcome is the result of a scenario.
type outcome struct {
	Scenario string  `json:"scenario"`
	MS       int     `json:"ms"`
	Error    *string `json:"error"`
	Lacking  string  `json:"lacking"` // what the machine does not have
}

// TestBrowser plays every scenario in one browser and reports each as a test. Not parallel,
// because it counts which answers were held to the document.
func TestBrowser(t *testing.T) {
	slow(t) // starts a browser
	s := setting{
		Chromium: chromium(t), Modules: modules(t), Profile: profile(t),
		Screenshots: os.Getenv("LEDGER_SCREENSHOTS"), Only: os.Getenv("LEDGER_SCENARIOS"),
	}
	s.Extension, s.ExtensionID = extension(t)
	s.Listed, s.Unlisted = site(t), site(t)
	s.API = startAPI(t, s.Listed, s.ExtensionID+"=Test Extension")
	told, err := json.Marshal(s)
	must(t, err)
	report(t, play(t, "main.mjs", told))
	if s.Only == "" {
		checkSeen(t)
	}
}

// report makes each scenario a test.
func report(t *testing.T, outcomes []outcome) {
	t.Helper()
	for _, o := range outcomes {
		t.Run(o.Scenario, func(t *testing.T) {
			t.Logf("%d ms", o.MS)
			if o.Error != nil {
				t.Error(*o.Error)
			}
			if o.Lacking != "" {
				stacktest.Lacking(t, o.Lacking)
			}
		})
	}
}

// play runs a driver of scenarios to its end.
func play(t *testing.T, script string, told []byte) []outcome {
	t.Helper()
	return outcomes(t, drive(t, script, told))
}

// drive runs a driver to its end and returns its output.
func drive(t *testing.T, script string, told []byte) []byte {
	t.Helper()
	var said, complaints bytes.Buffer
	cmd := exec.Command("node", filepath.Join("testdata", "driver", script))
	cmd.Env = append(os.Environ(), "BROWSER_TEST="+string(told))
	cmd.Stdout, cmd.Stderr = &said, &complaints
	// The driver's input stays open until this process ends, so that the browser ends
	// with this process in any case.
	must(t, errorOf(cmd.StdinPipe()))
	driver, err := child.Start(cmd, syscall.SIGTERM)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	select {
	case <-driver.Done():
	case <-ctx.Done():
		stopping, stopped := context.WithTimeout(context.Background(), 5*time.Second)
		defer stopped()
		err = driver.Stop(stopping, syscall.SIGTERM)
		t.Errorf("the scenarios did not end within %v (%v)", limit, err)
	}
	if err := driver.Err(); err != nil {
		t.Errorf("driver: %v\n%s", err, complaints.String())
	}
	return said.Bytes()
}

func outcomes(t *testing.T, said []byte) []outcome {
	t.Helper()
	var all []outcome
	for lines := bufio.NewScanner(bytes.NewReader(said)); lines.Scan(); {
		var o outcome
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			t.Fatalf("driver said %q: %v", lines.Text(), err)
		}
		all = append(all, o)
	}
	if len(all) == 0 {
		t.Error("no scenario was played")
	}
	return all
}

// extension returns the folder of the test extension and its id.
func extension(t *testing.T) (dir, id string) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("testdata", "extension"))
	must(t, err)
	return dir, extensionID(t, dir)
}

// extensionID derives an extension's id from the key in its manifest, as the browser does.
func extensionID(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	must(t, err)
	var manifest struct{ Key string }
	must(t, json.Unmarshal(raw, &manifest))
	key, err := base64.StdEncoding.DecodeString(manifest.Key)
	must(t, err)
	hash := sha256.Sum256(key)
	var letters strings.Builder
	for _, b := range hash[:16] {
		letters.WriteByte('a' + b>>4)
		letters.WriteByte('a' + b&15)
	}
	return letters.String()
}

// profile makes a folder for the browser. The browser's helpers may still write to the
// folder for a moment after the browser's end, so a failed removal is ignored.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ledger-browser-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// site serves an empty page from its own origin.
func site(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>A site</title>"))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

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
