package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// nest returns an object of the given depth.
func nest(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + `{}` + strings.Repeat(`}`, depth-1)
}

// TestOddInput sends everything that JSON allows, and more. Stored input comes back
// unchanged, and a refusal says why. After each input, ordinary writes and reads of
// another owner work: odd input never stops a projection.
func TestOddInput(t *testing.T) {
	core := shared(t).Core[0]
	session, bystander := core.SignIn(stacktest.NewWallet()), core.SignIn(stacktest.NewWallet())
	for _, c := range []struct {
		name   string
		body   string
		status int
	}{
		{"nul in content", `{"content":"a\u0000b","metadata":{}}`, 201},
		{"nul in metadata", `{"content":"x","metadata":{"\u0000":"\u0000"}}`, 201},
		{"white space is content", `{"content":"  ","metadata":{}}`, 201},
		{"emoji by surrogates", `{"content":"\ud83d\ude00","metadata":{"e":"\ud83d\ude00"}}`, 201},
		{"huge but finite number", `{"content":"x","metadata":{"n":1.7976931348623157e308}}`, 201},
		{"many digits", `{"content":"x","metadata":{"n":` + strings.Repeat("9", 300) + `}}`, 201},
		{"64 deep", `{"content":"x","metadata":` + nest(64) + `}`, 201},
		{"unknown members", `{"content":"x","metadata":{},"more":[1]}`, 400},
		{"no metadata", `{"content":"x"}`, 201},
		{"most content", `{"content":"` + strings.Repeat("x", 262144) + `","metadata":{}}`, 201},
		{"most metadata", `{"content":"x","metadata":{"k":"` + strings.Repeat("y", 65536-8) + `"}}`, 201},

		{"content too long", `{"content":"` + strings.Repeat("x", 262145) + `","metadata":{}}`, 413},
		{"content too long in bytes", `{"content":"` + strings.Repeat("é", 131073) + `","metadata":{}}`, 413},
		{"metadata too long", `{"content":"x","metadata":{"k":"` + strings.Repeat("y", 65536-7) + `"}}`, 413},
		{"body too long", `{"content":"` + strings.Repeat("x", 1<<20) + `","metadata":{}}`, 413},
		{"empty content", `{"content":"","metadata":{}}`, 400},
		{"no content", `{"metadata":{}}`, 400},
		{"content null", `{"content":null,"metadata":{}}`, 400},
		{"content a number", `{"content":1,"metadata":{}}`, 400},
		{"metadata null", `{"content":"x","metadata":null}`, 400},
		{"metadata an array", `{"content":"x","metadata":[]}`, 400},
		{"metadata a string", `{"content":"x","metadata":"{}"}`, 400},
		{"number beyond a double", `{"content":"x","metadata":{"n":1e400}}`, 400},
		{"lone surrogate in content", `{"content":"\ud800","metadata":{}}`, 400},
		{"lone surrogate in metadata", `{"content":"x","metadata":{"a":"\udc00"}}`, 400},
		{"noncharacter in content", `{"content":"\ufffe","metadata":{}}`, 201},
		{"noncharacter in metadata", "{\"content\":\"x\",\"metadata\":{\"a\":[\"\ufffe\"]}}", 400},
		{"noncharacter in a name", `{"content":"x","metadata":{"\ufdd0":1}}`, 400},
		{"noncharacter beyond the first plane", `{"content":"x","metadata":{"a":"\ud83f\udfff"}}`, 400},
		{"duplicate name in metadata", `{"content":"x","metadata":{"a":1,"a":2}}`, 400},
		{"duplicate name in the body", `{"content":"x","content":"y","metadata":{}}`, 400},
		{"65 deep", `{"content":"x","metadata":` + nest(65) + `}`, 400},
		{"5000 arrays", `{"content":"x","metadata":{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}}`, 400},
		{"100000 arrays elsewhere", `{"content":"x","metadata":{},"z":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, 400},
		{"invalid UTF-8", "{\"content\":\"\xff\",\"metadata\":{}}", 400},
		{"not JSON", `content=x`, 400},
		{"trailing data", `{"content":"x","metadata":{}} {}`, 400},
		{"an array", `[]`, 400},
		{"null", `null`, 400},
		{"nothing", ``, 400},
	} {
		a := core.Do("POST", "/memories", c.body, session)
		if a.Status != c.status {
			t.Errorf("%s: status %d, want %d: %.200s", c.name, a.Status, c.status, a.Body)
		}
		if a.Status >= 400 && a.Text("error") == "" {
			t.Errorf("%s: no error message: %.200s", c.name, a.Body)
		}
		if strings.HasPrefix(c.name, "duplicate") && !strings.Contains(a.Text("error"), "duplicate name") {
			t.Errorf("%s: the error does not say so: %s", c.name, a.Body)
		}
		if a.Status == 201 {
			checkKept(t, core, session, c.name, c.body, a.Text("id"))
		}
		b := core.Expect(201, "POST", "/memories", `{"content":"ordinary","metadata":{}}`, bystander)
		core.Expect(200, "GET", "/memories/"+b.Text("id"), nil, bystander)
	}
}

func checkKept(t *testing.T, core *stacktest.Client, session stacktest.Header, name, sent, id string) {
	t.Helper()
	var want struct {
		Content  string
		Metadata map[string]any
	}
	noErr(t, json.Unmarshal([]byte(sent), &want))
	if want.Metadata == nil {
		want.Metadata = map[string]any{}
	}
	got := decode[view](t, core.Expect(200, "GET", "/memories/"+id, nil, session).Body)
	var metadata map[string]any
	if err := json.Unmarshal(got.Metadata, &metadata); err != nil {
		t.Errorf("%s: metadata: %v", name, err)
	}
	if got.Content != want.Content || fmt.Sprint(metadata) != fmt.Sprint(want.Metadata) {
		t.Errorf("%s: came back as %.200s %.200s", name, got.Content, got.Metadata)
	}
}

func TestExtensionLimits(t *testing.T) {
	c := shared(t).Extension[0]
	session := c.SignIn(stacktest.NewWallet())
	write := func(status int, content, source any) {
		t.Helper()
		a := c.Expect(status, "POST", "/memories", map[string]any{"content": content, "source": source}, session)
		if status == 400 && (a.Text("requestId") == "" || a.Text("error") == "") {
			t.Errorf("error %s", a.Body)
		}
	}
	write(201, strings.Repeat("é", 10000), strings.Repeat("😀", 80))
	write(201, " "+strings.Repeat("x", 10000)+"\n", " s ")
	write(400, strings.Repeat("x", 10001), "s")
	write(400, " \n\t ", "s")
	write(400, "x", strings.Repeat("s", 81))
	write(400, "x", "  ")
	write(400, "x", "s\ufffe")
	write(400, "x", nil)
	write(400, nil, "s")
	write(400, "x", 1)
	write(400, []string{"x"}, "s")
	c.Expect(400, "POST", "/memories", map[string]any{"content": "x", "source": "s", "metadata": 1}, session)
}

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

func batchOf(contents ...string) map[string]any {
	memories := make([]any, len(contents))
	for i, content := range contents {
		memories[i] = map[string]any{"content": content, "metadata": map[string]any{"n": i}}
	}
	return map[string]any{"memories": memories}
}

func numbered(n int) []string {
	contents := make([]string, n)
	for i := range contents {
		contents[i] = fmt.Sprint("memory ", i)
	}
	return contents
}

func TestBatch(t *testing.T) {
	s := shared(t)
	session := s.Core[0].SignIn(stacktest.NewWallet())
	key := stacktest.Bearer(s.Core[0].Expect(201, "POST", "/keys", map[string]any{"label": "x"}, session).Text("key"))
	s.Core[0].Expect(201, "POST", "/memories", batchOf("alone")["memories"].([]any)[0], session)
	wrote := decode[[]view](t, s.Core[0].Expect(201, "POST", "/memories/batch", batchOf(numbered(256)...), key).Body)
	if len(wrote) != 256 {
		t.Fatalf("%d answers", len(wrote))
	}
	listed := decode[[]view](t, s.Core[1].Expect(200, "GET", "/memories", nil, session).Body)[1:]
	for i, w := range wrote {
		m := listed[i]
		if w.LeafIndex != uint64(i+1) || m.ID != w.ID || m.LeafIndex != w.LeafIndex || m.LeafHash != w.LeafHash || m.Content != fmt.Sprint("memory ", i) {
			t.Fatalf("answer %d is %+v, the memory %+v", i, w, m)
		}
	}
	s.Core[1].Expect(200, "GET", "/memories/"+wrote[200].ID+"/receipt", nil, key)

	// A refused batch stores nothing.
	for body, status := range map[string]int{
		`{}`: 400, `{"memories":[]}`: 400, `{"memories":null}`: 400, `{"memories":{}}`: 400, `{"memories":[null]}`: 400,
		`{"memories":[{"content":"x"},{"content":""}]}`:                                                                                               400,
		`{"memories":[{"content":"x"},{"content":"y","metadata":1}]}`:                                                                                 400,
		`{"memories":[` + strings.Repeat(`{"content":"x"},`, 256) + `{"content":"x"}]}`:                                                               400,
		`{"memories":[{"content":"x"},{"content":"` + strings.Repeat("x", 262145) + `"}]}`:                                                            413,
		`{"memories":[` + strings.Repeat(`{"content":"x","metadata":{"n":[`+strings.Repeat("1e20,", 2800)+`1]}},`, 64) + `{"content":"x"}]}`:          413,
		`{"memories":[` + strings.Repeat(`{"content":"`+strings.Repeat("x", 262144)+`"},`, 3) + `{"content":"` + strings.Repeat("x", 262144) + `"}]}`: 413,
	} {
		if a := s.Core[0].Expect(status, "POST", "/memories/batch", body, session); status == 400 && strings.Contains(body, `"content":""`) &&
			a.Text("error") != "memories[1]: content must not be empty" {
			t.Errorf("%s", a.Body)
		}
	}
	// The longest body fits into one message.
	large := `{"memories":[` + strings.Repeat(`{"content":"`+strings.Repeat("x", 4000)+`"},`, 255) + `{"content":"` + strings.Repeat("x", 24000) + `"}]}`
	s.Core[0].Expect(201, "POST", "/memories/batch", large, session)
	if head := s.Core[1].Expect(200, "GET", "/log", nil, session); head.Number("treeSize") != 1+256+256 {
		t.Errorf("log %s", head.Body)
	}
	s.Core[0].Expect(401, "POST", "/memories/batch", batchOf("x"))
}

func TestIdempotencyKey(t *testing.T) {
	s := shared(t)
	wallet := stacktest.NewWallet()
	session, other := s.Core[0].SignIn(wallet), s.Extension[0].SignIn(wallet)
	key := stacktest.With("Idempotency-Key", "order-66!")
	first := s.Core[0].Expect(201, "POST", "/memories", `{"content":"x","metadata":{"a":1,"b":2}}`, session, key)
	// The same body, written differently, on another replica.
	again := s.Core[1].Expect(201, "POST", "/memories", `{"metadata":{"b":2.0,"a":1},"content":"x"}`, session, key)
	if string(first.Body) != string(again.Body) {
		t.Errorf("first %s, again %s", first.Body, again.Body)
	}
	s.Core[1].Expect(422, "POST", "/memories", `{"content":"y","metadata":{"a":1,"b":2}}`, session, key)
	s.Core[0].Expect(201, "POST", "/memories", `{"content":"z"}`, session, stacktest.With("Idempotency-Key", "another"))
	// The extension API shares the keys of an owner.
	e1 := s.Extension[0].Expect(201, "POST", "/memories", `{"content":"e","source":"s"}`, other, stacktest.With("Idempotency-Key", "e"))
	e2 := s.Extension[0].Expect(201, "POST", "/memories", `{"content":"e","source":"s"}`, other, stacktest.With("Idempotency-Key", "e"))
	if string(e1.Body) != string(e2.Body) {
		t.Errorf("first %s, again %s", e1.Body, e2.Body)
	}
	// The same key of another owner is a different key.
	stranger := s.Core[0].SignIn(stacktest.NewWallet())
	s.Core[0].Expect(201, "POST", "/memories", `{"content":"y"}`, stranger, key)
	for _, bad := range []string{"", " ", "with space", strings.Repeat("k", 256), "é"} {
		s.Core[0].Expect(400, "POST", "/memories", `{"content":"x"}`, session, stacktest.With("Idempotency-Key", bad))
	}
	if head := s.Core[0].Expect(200, "GET", "/log", nil, session); head.Number("treeSize") != 3 {
		t.Errorf("log %s", head.Body)
	}
}

// TestADropCanBeRetried: a retry after a lost answer spends no other write, even if the
// write was the last one. Each drop has its own keys.
func TestADropCanBeRetried(t *testing.T) {
	s := shared(t)
	wallet := stacktest.NewWallet()
	session := s.Extension[0].SignIn(wallet)
	mint := func(writes, revokes int) (id, path string) {
		a := s.Extension[0].Expect(201, "POST", "/memory-drops", map[string]any{"maxWrites": writes}, session)
		path = strings.TrimPrefix(a.Text("url"), s.Extension[0].URL)
		if !strings.HasPrefix(path, "/memory-drops/svc_drop_") || a.Number("remainingWrites") != writes || a.Number("revokedPreviousCount") != revokes {
			t.Errorf("drop %s", a.Body)
		}
		return a.Text("id"), path
	}
	key := stacktest.With("Idempotency-Key", "k")
	id, earlier := mint(2, 0)
	// A bad body spends no write.
	for _, bad := range []string{`{}`, `{"content":""}`, `{"content":"x","source":""}`, `{"content":"x","metadata":[]}`, `{"content":1}`, `nope`, `{"content":"` + strings.Repeat("x", 10001) + `"}`} {
		s.Extension[0].Expect(400, "POST", earlier, bad)
	}
	left := s.Extension[1].Expect(201, "POST", earlier, `{"content":" kept as it is ","source":"pen","metadata":{"a":1}}`, key)
	if left.Field("ok") != true || left.Field("anchored") != false || left.Text("leafHash") == "" || left.Text("createdAt") == "" {
		t.Errorf("left %s", left.Body)
	}
	status := s.Extension[0].Expect(200, "GET", "/memory-drops/"+id+"/status", nil, session)
	if status.Number("writeCount") != 1 || status.Number("remainingWrites") != 1 || status.Field("revoked") != false || status.Field("expired") != false {
		t.Errorf("status %s", status.Body)
	}
	listed := decode[struct{ Memories []view }](t, s.Extension[0].Expect(200, "GET", "/memories", nil, session).Body).Memories
	if len(listed) != 1 || listed[0].Content != " kept as it is " || string(listed[0].Metadata) != `{"a":1,"source":"pen"}` {
		t.Errorf("listed %+v", listed)
	}

	id, path := mint(1, 1) // revokes the earlier one
	first := s.Extension[0].Expect(201, "POST", path, `{"content":"x","metadata":{"a":1}}`, key)
	for _, replica := range s.Extension { // the write was the last one: the drop is spent
		again := replica.Expect(201, "POST", path, `{"metadata":{"a":1.0},"content":"x"}`, key)
		if string(again.Body) != string(first.Body) {
			t.Errorf("first %s, again %s", first.Body, again.Body)
		}
		replica.Expect(422, "POST", path, `{"content":"y"}`, key)
		replica.Expect(404, "POST", path, `{"content":"x"}`)
		replica.Expect(404, "POST", path, `{"content":"x"}`, stacktest.With("Idempotency-Key", "another"))
		replica.Expect(404, "POST", path, `{"content":"x"}`, stacktest.With("Idempotency-Key", "not a key"))
		replica.Expect(422, "POST", earlier, `{"content":"y"}`, key)
		replica.Expect(404, "POST", earlier, `{"content":"y"}`)
	}
	if got := s.Extension[0].Expect(200, "GET", "/memory-drops/"+id+"/status", nil, session).Number("writeCount"); got != 1 {
		t.Errorf("%d writes were spent", got)
	}
	// The same key text, used by the owner, is a different key.
	own := s.Extension[0].Expect(201, "POST", "/memories", `{"content":"y","source":"s"}`, session, key)
	if own.Text("id") == first.Text("memoryId") {
		t.Errorf("the owner's write got the answer of the drop's: %s", own.Body)
	}
	// Many retries at the same time spend one write.
	id, path = mint(5, 0)
	s.Extension[0].Expect(400, "POST", path, `{"content":"x"}`, stacktest.With("Idempotency-Key", "not a key"))
	answers := make([]string, 20)
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() {
			answers[i] = string(s.Extension[i%2].Expect(201, "POST", path, `{"content":"once"}`, key).Body)
		})
	}
	group.Wait()
	for _, a := range answers {
		if a != answers[0] {
			t.Errorf("%s and %s", a, answers[0])
		}
	}
	if got := s.Extension[1].Expect(200, "GET", "/memory-drops/"+id+"/status", nil, session).Number("writeCount"); got != 1 {
		t.Errorf("%d writes were spent", got)
	}
}
