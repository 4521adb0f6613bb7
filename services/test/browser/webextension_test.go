package browser

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// webextensionSetting is the input of the driver of the extension's tests.
type webextensionSetting struct {
	API         string `json:"api"`
	Chromium    string `json:"chromium"`
	Firefox     string `json:"firefox"`
	Modules     string `json:"modules"`
	Profile     string `json:"profile"`
	Extension   string `json:"extension"`
	ExtensionID string `json:"extensionId"`
	Screenshots string `json:"screenshots"`
}

// TestWebExtensionInChromium loads the extension as a person would, and signs in. It
// saves while the service is up, is down, or does not answer. Then it restarts the
// browser and searches.
func TestWebExtensionInChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	t.Parallel()
	s := webextensionSetting{
		Chromium: chromium(t), Modules: modules(t), Profile: profile(t), Screenshots: os.Getenv("LEDGER_SCREENSHOTS"),
		Extension: buildWebExtension(t),
	}
	s.ExtensionID = extensionID(t, s.Extension)
	s.API = startAPI(t, "", "")
	told, err := json.Marshal(s)
	must(t, err)
	runNode(t, []string{"BROWSER_TEST=" + string(told)}, "node", filepath.Join("testdata", "webextension", "driver.mjs"))
}

// TestWebExtensionInFirefox loads the same extension as a temporary add-on: choose the
// service, sign in, save by menu and by shortcut, search.
func TestWebExtensionInFirefox(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	t.Parallel()
	s := webextensionSetting{
		Firefox: firefox(t), Modules: modules(t), Extension: buildWebExtension(t),
		ExtensionID: "0a1b2c3d-0a1b-4c3d-8e9f-0a1b2c3d4e5f", // Firefox reads it from a preference, and otherwise makes one up
	}
	s.API = startAPI(t, "", "")
	told, err := json.Marshal(s)
	must(t, err)
	runNode(t, []string{"BROWSER_TEST=" + string(told)}, "node", filepath.Join("testdata", "webextension", "firefox.mjs"))
}

// buildWebExtension builds the extension in a temporary folder.
func buildWebExtension(t *testing.T) string {
	t.Helper()
	out := t.TempDir()
	build := exec.CommandContext(t.Context(), "../../clients/webextension/build", compileClient(t, clientFolder(t)), out)
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, said)
	}
	return out
}
