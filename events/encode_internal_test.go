package events

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestEncoderAgreesWithTheStandardOne decodes every golden file into the
// envelope and compares what the library makes of it with our own bytes.
func TestEncoderAgreesWithTheStandardOne(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("testdata", "golden", "*.json"))
	if err != nil || len(paths) < len(catalogue) {
		t.Fatalf("%d golden files, %v", len(paths), err)
	}
	for _, path := range paths {
		golden, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var envelopes []envelope
		if err := json.Unmarshal(golden, &envelopes); err != nil {
			t.Fatal(err)
		}
		standard, err := json.Marshal(envelopes)
		if err != nil {
			t.Fatal(err)
		}
		batch, err := DecodeBatch(golden)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := EncodeBatch(batch)
		if err != nil {
			t.Fatal(err)
		}
		if string(ours) != string(standard) {
			t.Errorf("%s\nours     %s\nstandard %s", path, ours, standard)
		}
	}
}
