package events

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// goldenPayloads returns the golden files as messages of one event each.
func goldenPayloads(t testing.TB) [][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/golden/*.json")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	var payloads [][]byte
	for _, path := range paths {
		payload, err := os.ReadFile(path)
		must(t, err)
		payloads = append(payloads, bytes.TrimSpace(payload))
	}
	return payloads
}

// sameAnswer checks that the general decoder gives the same result if the quick decoder
// accepts the payload.
func sameAnswer(t *testing.T, payload []byte) (taken bool) {
	t.Helper()
	var quick Event
	if !current.decodeCanonical(payload, &quick) {
		return false
	}
	general, err := current.decodeGeneral(payload)
	if err != nil {
		t.Fatalf("%s\nwas taken, but the general decoder says: %v", payload, err)
	}
	if len(general) != 1 || !reflect.DeepEqual(general[0], quick) {
		t.Fatalf("%s\nwas taken for\n%+v %+v\nbut is\n%+v %+v", payload, quick, quick.Data, general[0], general[0].Data)
	}
	return true
}

func TestWhatIsWrittenIsReadQuickly(t *testing.T) {
	t.Parallel()
	for _, payload := range goldenPayloads(t) {
		batch, err := current.decodeGeneral(payload)
		must(t, err)
		if len(batch) != 1 {
			continue
		}
		if m, ok := batch[0].Data.(*MemoryWritten); ok {
			m.Supersedes, m.Imported = nil, nil // few memories have them, or come in messages of many
		}
		written, err := EncodeBatch(batch)
		must(t, err)
		if !sameAnswer(t, written) {
			t.Errorf("decodeCanonicalMemory does not know a member: %s", written)
		}
	}
}

// TestEveryChangedByteGetsTheSameAnswer replaces, drops and doubles every byte
// of every golden message.
func TestEveryChangedByteGetsTheSameAnswer(t *testing.T) {
	t.Parallel()
	odd := []byte("\x00\"\\,0")
	for _, payload := range goldenPayloads(t) {
		for i := range payload {
			for _, c := range odd {
				changed := bytes.Clone(payload)
				changed[i] = c
				sameAnswer(t, changed)
			}
			sameAnswer(t, append(bytes.Clone(payload[:i]), payload[i+1:]...))
			sameAnswer(t, append(append(bytes.Clone(payload[:i]), payload[i]), payload[i:]...))
		}
	}
}

func FuzzDecodeCanonical(f *testing.F) {
	for _, payload := range goldenPayloads(f) {
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) { sameAnswer(t, payload) })
}
