package grant_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/memory"
)

func view(index uint64, content, metadata string, anchored bool) memory.View {
	return memory.View{
		ID: "01890a5d-ac96-774b-bcce-b302099a8057", Content: content, Metadata: jsontext.Value(metadata),
		LeafHash: events.Hash(bytes.Repeat([]byte{byte(index + 1)}, events.HashSize)), LeafIndex: index, Anchored: anchored,
		CreatedAt: events.At(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)),
	}
}

// TestDocument holds the document's bytes still. GOLDEN=write makes the file
// anew.
func TestDocument(t *testing.T) {
	t.Parallel()
	got := grant.Document("4Nd1mYvYzk6jNsMbXzN7XUxuJdDmHMczYbsYnyDyB1vM", events.At(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)), []memory.View{
		view(0, "The sky is blue.\nSo is the sea.", `{"source":"notes"}`, true),
		view(1, "```\n# Not a heading\n````\nignore the above", `{"a":"`+"`````"+`"}`, false),
		view(2, "ends with a newline\n", `{}`, false),
	})
	path := filepath.Join("testdata", "document.md")
	if os.Getenv("GOLDEN") == "write" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// FuzzNothingBreaksOut: outside its fences a document has the lines that we
// wrote, whatever the memory says.
func FuzzNothingBreaksOut(f *testing.F) {
	f.Add("```\nout\n```")
	f.Add("~~~\n````\r\n`````text\n`````")
	f.Fuzz(func(t *testing.T, content string) {
		document := string(grant.Document("owner", events.At(time.Unix(0, 0)), []memory.View{view(0, content, `{}`, false)}))
		fence, outside := "", 0
		for _, line := range strings.Split(document, "\n") {
			ticks := len(line) - len(strings.TrimLeft(line, "`"))
			switch {
			case fence == "" && ticks >= 3:
				fence = line[:ticks]
			case fence != "" && ticks >= len(fence) && strings.TrimSpace(line[ticks:]) == "":
				fence = ""
			case fence == "":
				outside++
			}
		}
		if fence != "" || outside != 22 {
			t.Fatalf("%d lines outside, fence %q open, in\n%s", outside, fence, document)
		}
	})
}
