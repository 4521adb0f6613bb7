package e2e_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestOnlyListsAreCompressed: lists, searches and documents of the API are compressed,
// and their content stays the same. Answers that hold a token, a key, or data that a
// token gave access to are not compressed, however long they are. Every other test
// checks that, too: the clients ask for gzip, and a compressed answer is an error
// unless the API's document says that it may be compressed.
func TestOnlyListsAreCompressed(t *testing.T) {
	s := shared(t)
	core, extension := s.Core[0], s.Extension[0]
	wallet := stacktest.NewWallet()
	session, other := core.SignIn(wallet), extension.SignIn(wallet)
	var id string
	for n := range 10 {
		id = core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprint(n, strings.Repeat(" memory", 1000))}, session).Text("id")
	}
	gzipped, plain := stacktest.With("Accept-Encoding", "gzip"), stacktest.With("Accept-Encoding", "identity")
	for _, list := range []struct {
		client       *stacktest.Client
		method, path string
		session      stacktest.Header
	}{
		{core, "GET", "/memories", session},
		{core, "GET", "/memories?limit=9", session},
		{core, "POST", "/memories/search", session},
		{core, "GET", "/openapi.json", session},
		{extension, "GET", "/memories", other},
		{extension, "POST", "/memories/search", other},
	} {
		want := list.client.Expect(200, list.method, list.path, nil, list.session, plain)
		got := list.client.Expect(200, list.method, list.path, nil, list.session, gzipped)
		if want.Header.Get("Content-Encoding") != "" || got.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %q for a client that takes gzip", list.path, got.Header.Get("Content-Encoding"))
			continue
		}
		reader, err := gzip.NewReader(bytes.NewReader(got.Body))
		noErr(t, err)
		text, err := io.ReadAll(reader)
		if err != nil || !bytes.Equal(text, want.Body) || len(got.Body) > len(text)/3 {
			t.Errorf("%s: %d bytes made of %d, of %d, %v", list.path, len(got.Body), len(text), len(want.Body), err)
		}
	}

	long := map[string]any{"content": strings.Repeat("memory ", 1400), "source": "s", "metadata": map[string]any{"m": strings.Repeat("x", 60000)}}
	made := extension.Expect(201, "POST", "/agent-cases", nil, other, gzipped)
	for what, answer := range map[string]stacktest.Answer{
		"a case":        made,
		"its document":  extension.Expect(200, "GET", strings.TrimPrefix(made.Text("url"), extension.URL), nil, gzipped),
		"a drop":        extension.Expect(201, "POST", "/memory-drops", nil, other, gzipped),
		"a write":       extension.Expect(201, "POST", "/memories", long, other, gzipped),
		"a key":         core.Expect(201, "POST", "/keys", map[string]any{"label": strings.Repeat("x", 200)}, session, gzipped),
		"keys":          core.Expect(200, "GET", "/keys", nil, session, gzipped),
		"a challenge":   core.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey}, gzipped),
		"one memory":    core.Expect(200, "GET", "/memories/"+id, nil, session, gzipped),
		"a short list":  core.Expect(200, "GET", "/memories?limit=1", nil, session, gzipped),
		"a bad request": core.Expect(400, "GET", "/memories?limit=0", nil, session, gzipped),
	} {
		if encoding := answer.Header.Get("Content-Encoding"); encoding != "" {
			t.Errorf("%s: %s", what, encoding)
		}
	}
}
