package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/run/config"
)

// TestEveryVariableIsDocumented: each variable has a meaning and the commands that read
// it. A new variable needs the tags for and doc.
func TestEveryVariableIsDocumented(t *testing.T) {
	t.Parallel()
	var names []string
	for _, v := range config.Variables() {
		names = append(names, v.Name)
		if v.Name == "" || len(v.Commands) == 0 || len(v.Meaning) < 10 || strings.Contains(v.Meaning, "|") {
			t.Errorf("%+v", v)
		}
	}
	for _, want := range []string{"CORE_ADDR", "EXTENSION_ADDR", "MASTER_KEY", "KEY_MAX_AGE"} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no %s", want)
		}
	}
	for command, want := range map[string]string{"core-api": "CORE_ADDR", "extension-api": "EXTENSION_ADDR", "run": "POSTGRES_BIN", "anchorer": "ANCHOR_MAX_WAIT", "restore": "NATS_REPLICAS"} {
		if !slices.ContainsFunc(config.VariablesOf(command), func(v config.Variable) bool { return v.Name == want }) {
			t.Errorf("%s does not read %s", command, want)
		}
	}
	if slices.ContainsFunc(config.VariablesOf("core-api"), func(v config.Variable) bool { return v.Name == "EXTENSION_ADDR" }) {
		t.Error("the core API reads EXTENSION_ADDR")
	}
}

// TestEmbeddings: an endpoint needs an http or https URL and a model, and its key may be
// in a file.
func TestEmbeddings(t *testing.T) {
	t.Parallel()
	for environ, want := range map[string]string{
		"EMBEDDINGS_URL=http://127.0.0.1:1/v1/embeddings EMBEDDINGS_MODEL=m": "",
		"EMBEDDINGS_URL=https://e.example/x?version=1 EMBEDDINGS_MODEL=m":    "",
		"EMBEDDINGS_URL=https://e.example/":                                  "EMBEDDINGS_MODEL: ",
		"EMBEDDINGS_URL=ftp://e.example/ EMBEDDINGS_MODEL=m":                 "EMBEDDINGS_URL: ",
		"EMBEDDINGS_URL=e.example EMBEDDINGS_MODEL=m":                        "EMBEDDINGS_URL: ",
		"EMBEDDINGS_URL=https://user:pass@e.example/ EMBEDDINGS_MODEL=m":     "EMBEDDINGS_URL: ",
	} {
		_, err := config.Load(strings.Fields(environ))
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v", environ, err)
		}
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := config.Load([]string{"EMBEDDINGS_KEY_FILE=" + file}); err != nil || c.EmbeddingsKey != "secret" {
		t.Errorf("the key is %q, %v", c.EmbeddingsKey, err)
	}
}
