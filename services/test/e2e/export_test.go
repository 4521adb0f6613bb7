package e2e_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/anchoring/export"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestExport: a replica's export verifies offline, and has what the owner wrote.
func TestExport(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	session, stranger := s.Core[0].SignIn(stacktest.NewWallet()), s.Core[0].SignIn(stacktest.NewWallet())
	verify := func(c *stacktest.Client, session stacktest.Header, leaves uint64) (text []byte) {
		t.Helper()
		a := c.Expect(200, "GET", "/export", nil, session)
		if kind := a.Header.Get("Content-Type"); kind != "application/x-ndjson" {
			t.Errorf("content type %s", kind)
		}
		summary, err := export.Verify(bytes.NewReader(a.Body), nil)
		if err != nil {
			t.Fatalf("%v: %.300s", err, a.Body)
		}
		head := c.Expect(200, "GET", "/log", nil, session)
		if summary.Opened != leaves || summary.Without != 0 || summary.Header.Root.String() != head.Text("root") || string(summary.Header.Owner) != head.Text("owner") {
			t.Errorf("%+v, log %s", summary, head.Body)
		}
		return a.Body
	}
	verify(s.Core[0], session, 0)
	odd := "quotes \" and \\ and ☂ and \u0000 and <b>"
	s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": odd, "metadata": map[string]any{"b": 1e21, "a": []any{nil, "é"}}}, session)
	for range 12 {
		s.Core[0].Expect(201, "POST", "/memories/batch", batchOf(numbered(256)...), session)
	}
	s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": strings.Repeat(`"`, 262144)}, session)
	s.Core[1].Expect(201, "POST", "/memories", map[string]any{"content": "not yours"}, stranger)
	text := verify(s.Core[1], session, 2+12*256)
	if lines := bytes.Count(text, []byte("\n")); lines != 2+12*256+2 || bytes.Contains(text, []byte("not yours")) || !bytes.Contains(text, []byte(`{"kind":"session"`)) {
		t.Errorf("%d lines", lines)
	}
	verify(s.Core[0], stranger, 1)
	// The compressed export is the same.
	a := s.Core[0].Expect(200, "GET", "/export", nil, session, stacktest.With("Accept-Encoding", "gzip"))
	zip, err := gzip.NewReader(bytes.NewReader(a.Body))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := io.ReadAll(zip); err != nil || !bytes.Equal(again, text) {
		t.Errorf("compressed it is another one, %v", err)
	}
	key := s.Core[0].Expect(201, "POST", "/keys", map[string]any{"label": "x"}, session)
	verify(s.Core[1], stacktest.Bearer(key.Text("key")), 2+12*256)
}
