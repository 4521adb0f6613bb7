package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestNothingToRestore: restoring fails for a folder that is missing, holds no backup, or
// has a damaged part, and leaves no data folder behind.
func TestNothingToRestore(t *testing.T) {
	for name, files := range map[string][]string{
		"not there":  nil,
		"another":    {"notes.txt"},
		"unfinished": {"secrets/master-key", "log/stream.s2"},
	} {
		t.Run(name, func(t *testing.T) {
			from, data := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
			for _, file := range files {
				path := filepath.Join(from, file)
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				must(t, os.WriteFile(path, []byte("x"), 0o600))
			}
			t.Setenv("LEDGER_DATA_DIR", data)
			t.Setenv("NATS_URL", "")
			if code := run([]string{"restore", from}, io.Discard); code != exitUsage {
				t.Errorf("exit code %d", code)
			}
			if _, err := os.Stat(data); !os.IsNotExist(err) {
				t.Errorf("the data folder: %v", err)
			}
		})
	}
}
