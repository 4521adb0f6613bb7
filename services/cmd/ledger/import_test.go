package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/memory"
)

// TestAnImportThatBreaksOff: it counts as stored only what the service has stored.
func TestAnImportThatBreaksOff(t *testing.T) {
	batches := 0
	core := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/log":
			fmt.Fprintf(w, `{"owner":"","treeSize":0,"anchoredSize":0,"root":"%064d"}`, 0)
			return
		case r.Method == http.MethodGet: // nothing is stored yet
			fmt.Fprint(w, "[]")
			return
		}
		if batches++; batches > 1 {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"error":"the API key does not have the scope"}`)
			return
		}
		leaf := `{"id":"x","leafHash":"` + strings.Repeat("0", 64) + `","leafIndex":0}`
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "[%s]", strings.TrimSuffix(strings.Repeat(leaf+",", memory.MaxBatch), ","))
	}))
	defer core.Close()
	var lines strings.Builder
	for n := range memory.MaxBatch + 10 {
		fmt.Fprintf(&lines, "note %d\n", n)
	}
	file := filepath.Join(t.TempDir(), "notes.txt")
	must(t, os.WriteFile(file, []byte(lines.String()), 0o600))
	onlyEnviron(t, map[string]string{"LEDGER_URL": core.URL, "LEDGER_API_KEY": "svc_x"})
	var out strings.Builder
	code := run([]string{"import", "--from", file, "--format", "text"}, &out)
	if want := fmt.Sprintf("%d entries read: %d stored, 0 of them because they changed", memory.MaxBatch+10, memory.MaxBatch); code != exitUsage || !strings.Contains(out.String(), want) {
		t.Errorf("exit code %d, %s, want %s", code, out.String(), want)
	}
}
