package archtest

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the version of VERSION wherever it stands")

// versions lists where the version stands: what is before it, in which files.
var versions = map[string][]string{
	`const released = "`:    {"services/cmd/ledger/version.go"},
	` Version: "`:           {"services/mcp/server.go"},
	`"version": "`:          {"events/schema/asyncapi.go", "services/clients/webextension/manifest.json"},
	`(?m)^  version: `:      {"services/core/openapi.yaml", "services/extension/openapi.yaml"},
	`(?m)^version = "`:      {"services/clients/python/pyproject.toml"},
	`memory-ledger-client-`: {"services/clients/typescript/README.md"},
	`newTag: `:              {"infra/kubernetes/overlays/example/kustomization.yaml"},
	`memory-ledger/ledger/\S+[ @]v`: {
		"*/go.mod", "projections/internal/fixture/go.mod", "services/*/go.mod", "services/clients/go/go.mod", "services/clients/go/README.md",
	},
	`"name": "@memory-ledger/\w+",\s+"version": "`: {"services/clients/*/package-lock.json", "services/clients/typescript/package.json", "services/clients/frameworks/*/package.json"},
	`"@memory-ledger/client": "\^`:                 {"services/clients/frameworks/*/package.json", "services/clients/frameworks/package-lock.json"},
}

// TestOneVersion: the version is that of the file VERSION, wherever it stands.
// `make generate` writes it.
func TestOneVersion(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "/VERSION")
	must(t, err)
	version := strings.TrimSpace(string(text))
	if !regexp.MustCompile(`^\d+\.\d+\.\d+$`).MatchString(version) {
		t.Fatalf("VERSION says %q, which is not of the form 1.2.3", version)
	}
	for before, patterns := range versions {
		stands := regexp.MustCompile("(" + before + `)\d+\.\d+\.\d+`)
		for _, pattern := range patterns {
			paths, err := filepath.Glob(filepath.Join(root, pattern))
			must(t, err)
			found := false
			for _, path := range paths {
				text, err := os.ReadFile(path)
				must(t, err)
				found = found || stands.Match(text)
				switch right := stands.ReplaceAllString(string(text), "${1}"+version); {
				case right == string(text):
				case *update:
					must(t, os.WriteFile(path, []byte(right), 0o644))
				default:
					t.Errorf("%s has another version than VERSION: run make generate", path)
				}
			}
			if !found {
				t.Errorf("no version in %s", pattern)
			}
		}
	}
}
