package e2e_test

import (
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestUnknownMembers: a member that a route does not know is refused on every route, in
// nested objects too, and nothing is stored. Sign-in ignores such members.
func TestUnknownMembers(t *testing.T) {
	s := shared(t)
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	session, other := core.SignIn(wallet), extension.SignIn(wallet)
	drop := strings.TrimPrefix(extension.Expect(201, "POST", "/memory-drops", nil, other).Text("url"), extension.URL)
	erase := wallet.Answer(core.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey, "purpose": "erase"}).Text("message"))
	erase["sure"] = true
	for _, c := range []struct {
		api          *stacktest.Client
		path         string
		body         any
		unknown, has string
	}{
		{core, "/keys", `{"label":"x","scope":["read"],"expires":"2026-12-01"}`, "/scope", "scopes"},
		{core, "/memories", `{"content":"x","tag":["a"]}`, "/tag", "metadata"},
		{core, "/memories/batch", `{"memories":[{"content":"x"},{"content":"y","meta":{}}]}`, "/memories/1/meta", "metadata"},
		{core, "/memories/batch", `{"memories":[{"content":"x"}],"atomic":true}`, "/atomic", "memories"},
		{core, "/memories/search", `{"filters":{"source":"x"}}`, "/filters", "filter"},
		{core, "/memories/search", `{"filter":{"sources":"x"}}`, "/filter/sources", "source"},
		{core, "/memories/search", `{"filter":{"via":{"kind":"key","key":"x"}}}`, "/filter/via/key", "id"},
		{core, "/erasure", erase, "/sure", "signature"},
		{extension, "/memories", `{"content":"x","source":"s","when":"today"}`, "/when", "metadata"},
		{extension, "/agent-cases", `{"maxWrites":1}`, "/maxWrites", "maxReads"},
		{extension, "/memory-drops", `{"minutes":1}`, "/minutes", "expiresInMinutes"},
		{core, "/memories/x/forget", `{"reason":"private"}`, "/reason", "none here"},
		{extension, "/agent-cases/x/revoke", `{"at":"2030-01-01"}`, "/at", "none here"},
		{extension, drop, `{"content":"x","from":"me"}`, "/from", "source"},
	} {
		credential := session
		if c.api == extension {
			credential = other
		}
		a := c.api.Expect(400, "POST", c.path, c.body, credential)
		if text := a.Text("error"); !strings.Contains(text, `unknown member "`+c.unknown+`"`) || !strings.Contains(text, c.has) {
			t.Errorf("%s %v: %s", c.path, c.body, text)
		}
	}
	for _, path := range []string{"/memories/x", "/keys/x", "/grants/x", "/import"} {
		core.Expect(400, "DELETE", path, `{"reason":"private"}`, session)
	}
	if n := core.Expect(200, "GET", "/log", nil, session).Number("treeSize"); n != 0 {
		t.Errorf("%d memories were stored", n)
	}
	extension.Expect(201, "POST", drop, `{"content":"x","source":"me","metadata":{"from":{"any":"thing"}}}`)

	message := core.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey, "app": "x"}).Text("message")
	signed := wallet.Answer(message)
	signed["signatureType"] = "ed25519"
	core.Expect(200, "POST", "/auth/verify", signed)
}

// TestSourceOnCore: core takes a source as the extension API does, and makes the same leaf
// of it.
func TestSourceOnCore(t *testing.T) {
	s := shared(t)
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	session, other := core.SignIn(wallet), extension.SignIn(wallet)
	const body = `{"content":"x","source":" s ","metadata":{"source":"not this","n":1}}`
	a := core.Expect(201, "POST", "/memories", body, session)
	b := extension.Expect(201, "POST", "/memories", body, other)
	batch := decode[[]map[string]any](t, core.Expect(201, "POST", "/memories/batch", `{"memories":[`+body+`]}`, session).Body)
	if a.Text("leafHash") != b.Text("leafHash") || batch[0]["leafHash"] != a.Text("leafHash") {
		t.Errorf("core %s, extension %s, batch %v", a.Body, b.Body, batch)
	}
	found := decode[[]view](t, core.Expect(200, "POST", "/memories/search", `{"filter":{"source":"s"}}`, session).Body)
	if len(found) != 3 || string(found[0].Metadata) != `{"n":1,"source":"s"}` {
		t.Errorf("found %v", found)
	}
	for _, source := range []any{"", " \n", strings.Repeat("s", 81), nil, 1, "s\ufffe"} {
		core.Expect(400, "POST", "/memories", map[string]any{"content": "x", "source": source}, session)
		core.Expect(400, "POST", "/memories/batch", map[string]any{"memories": []any{map[string]any{"content": "x", "source": source}}}, session)
	}
	core.Expect(201, "POST", "/memories", map[string]any{"content": "x", "source": strings.Repeat("😀", 80)}, session)
}
