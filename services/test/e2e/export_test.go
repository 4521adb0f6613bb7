package e2e_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestExport: a replica's export verifies offline, and has what the owner wrote.
func TestExport(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	session, stranger := s.Core[0].SignIn(stacktest.NewWallet()), s.Core[0].SignIn(stacktest.NewWallet())
	check := func(c *stacktest.Client, session stacktest.Header, leaves uint64) (text []byte) {
		t.Helper()
		a := c.Expect(200, "GET", "/export", nil, session)
		if kind := a.Header.Get("Content-Type"); kind != "application/x-ndjson" {
			t.Errorf("content type %s", kind)
		}
		header, opened := verifyExport(t, a.Body)
		head := c.Expect(200, "GET", "/log", nil, session)
		if opened != leaves || header.TreeSize != leaves || header.Root.String() != head.Text("root") || header.Owner != head.Text("owner") {
			t.Errorf("%+v, %d opened, log %s", header, opened, head.Body)
		}
		return a.Body
	}
	check(s.Core[0], session, 0)
	odd := "quotes \" and \\ and ☂ and \u0000 and <b>"
	s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": odd, "metadata": map[string]any{"b": 1e21, "a": []any{nil, "é"}}}, session)
	for range 12 {
		s.Core[0].Expect(201, "POST", "/memories/batch", batchOf(numbered(256)...), session)
	}
	s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": strings.Repeat(`"`, 262144)}, session)
	s.Core[1].Expect(201, "POST", "/memories", map[string]any{"content": "not yours"}, stranger)
	text := check(s.Core[1], session, 2+12*256)
	if lines := bytes.Count(text, []byte("\n")); lines != 2+12*256+2 || bytes.Contains(text, []byte("not yours")) || !bytes.Contains(text, []byte(`{"kind":"session"`)) {
		t.Errorf("%d lines", lines)
	}
	check(s.Core[0], stranger, 1)
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
	check(s.Core[1], stacktest.Bearer(key.Text("key")), 2+12*256)
}

// verifyExport checks an export, and counts the leaves with an entry.
func verifyExport(t *testing.T, text []byte) (h verify.ExportHeader, opened uint64) {
	t.Helper()
	export, err := verify.ReadExport(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
	for m, err := range export.Memories() {
		if err != nil {
			t.Fatalf("%v: %.300s", err, text)
		}
		if m.Entry != nil {
			opened++
		}
	}
	return export.Header, opened
}
