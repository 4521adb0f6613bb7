package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

// TestVendoredFiles compares the vendored files with the checksums from their build.
func TestVendoredFiles(t *testing.T) {
	sums, err := os.ReadFile("vendor/checksums")
	must(t, err)
	for line := range strings.Lines(string(sums)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		content, err := files.ReadFile("app/" + name)
		must(t, err)
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is not what vendor/bundle.mjs made: run make dashboard", name)
		}
	}
}

// TestImports follows every import of the page: each must name a file of the page, so
// that nothing is fetched from elsewhere. Each request that the page makes itself must have a
// deadline, or outlive the page.
func TestImports(t *testing.T) {
	entries, err := files.ReadDir("app")
	must(t, err)
	requests := regexp.MustCompile(`(?s)\bfetch\(.*?;`)
	imports := regexp.MustCompile(`(?m)^(?:import|\} from|export .* from)[^\n]*?['"]([^'"]+)['"];?$`)
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".js") || strings.HasPrefix(entry.Name(), "vendor-") {
			continue
		}
		source, err := files.ReadFile("app/" + entry.Name())
		must(t, err)
		for _, match := range imports.FindAllStringSubmatch(string(source), -1) {
			name, relative := strings.CutPrefix(match[1], "./")
			if _, err := read(name); !relative || err != nil {
				t.Errorf("%s imports %q, which is not here", entry.Name(), match[1])
			}
		}
		for _, request := range requests.FindAllString(string(source), -1) {
			if !strings.Contains(request, "AbortSignal.") && !strings.Contains(request, "keepalive") {
				t.Errorf("%s: without a deadline: %s", entry.Name(), request)
			}
		}
	}
}

func TestPolicy(t *testing.T) {
	want := "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; " +
		"connect-src 'self' https://extension.example https://node.example:8899; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	if got := policy("https://extension.example", "https://node.example:8899/path"); got != want {
		t.Errorf("got %s", got)
	}
	if got := policy("https://extension.example", ""); strings.Contains(got, "node") {
		t.Errorf("got %s", got)
	}
}

// TestActivityKnowsEveryEvent: the screen has a sentence for each event type, or hides it.
func TestActivityKnowsEveryEvent(t *testing.T) {
	page, err := files.ReadFile("app/activity.js")
	must(t, err)
	hidden := regexp.MustCompile(`(?m)^const hidden = .*`).FindString(string(page))
	for _, d := range events.Catalogue() {
		if !strings.Contains(string(page), "\n  "+string(d.Type)+": ") && !strings.Contains(hidden, "'"+string(d.Type)+"'") {
			t.Errorf("app/activity.js has no sentence for %s", d.Type)
		}
	}
}
