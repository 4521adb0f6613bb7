package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/signin"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestEveryUseOfAKeyIsRecorded: each request that a live key is let in for is a use, even
// if it changed nothing or was refused later. At most one use a minute is recorded.
func TestEveryUseOfAKeyIsRecorded(t *testing.T) {
	core := shared(t).Core[0]
	session := core.SignIn(stacktest.NewWallet())
	once := stacktest.With("Idempotency-Key", "once")
	core.Expect(201, "POST", "/memories", map[string]any{"content": "once"}, session, once)
	lastUsed := func(id string) any {
		t.Helper()
		for _, key := range decode[[]map[string]any](t, core.Expect(200, "GET", "/keys", nil, session).Body) {
			if key["id"] == id {
				return key["lastUsedAt"]
			}
		}
		t.Errorf("key %s is not listed", id)
		return nil
	}
	for _, use := range []struct {
		name, method, path string
		body               any
		headers            []stacktest.Header
		status             int
	}{
		{"written", "POST", "/memories", map[string]any{"content": "x"}, nil, 201},
		{"repeated", "POST", "/memories", map[string]any{"content": "once"}, []stacktest.Header{once}, 201},
		{"malformed", "POST", "/memories", `{}`, nil, 400},
		{"too large", "POST", "/memories", map[string]any{"content": strings.Repeat("x", 262145)}, nil, 413},
		{"not JSON", "POST", "/memories", `{}`, []stacktest.Header{stacktest.With("Content-Type", "text/plain")}, 415},
		{"another body", "POST", "/memories", map[string]any{"content": "other"}, []stacktest.Header{once}, 422},
		{"not found", "GET", "/memories/none", nil, nil, 404},
		{"keys", "GET", "/keys", nil, nil, 403},
		{"staking", "POST", "/staking/stake", map[string]any{"amount": "1"}, nil, 403},
	} {
		made := core.Expect(201, "POST", "/keys", map[string]any{"label": use.name}, session)
		key := append([]stacktest.Header{stacktest.Bearer(made.Text("key"))}, use.headers...)
		core.Expect(use.status, use.method, use.path, use.body, key...)
		first := lastUsed(made.Text("id"))
		if first == nil {
			t.Errorf("%s: no use is recorded", use.name)
		}
		core.Expect(use.status, use.method, use.path, use.body, key...)
		core.Expect(200, "GET", "/log", nil, key[0])
		if again := lastUsed(made.Text("id")); again != first {
			t.Errorf("%s: used at %v, and at %v", use.name, first, again)
		}
	}
	dead := core.Expect(201, "POST", "/keys", map[string]any{"label": "dead"}, session)
	core.Expect(200, "DELETE", "/keys/"+dead.Text("id"), nil, session)
	for _, body := range []string{`{"content":"x"}`, `{}`} {
		core.Expect(401, "POST", "/memories", body, stacktest.Bearer(dead.Text("key")))
	}
	core.Expect(401, "GET", "/keys", nil, stacktest.Bearer(dead.Text("key")))
	if used := lastUsed(dead.Text("id")); used != nil {
		t.Errorf("a dead key was used at %v", used)
	}
}

func headerNames(h http.Header) string {
	names := ""
	for _, n := range []string{"Content-Type", "Content-Length", "Cache-Control", "Vary", "Retry-After", "Connection"} {
		names += n + ":" + h.Get(n) + ";"
	}
	return names + fmt.Sprint(len(h))
}

func TestGrantRanges(t *testing.T) {
	c := shared(t).Extension[0]
	session := c.SignIn(stacktest.NewWallet())
	for path, uses := range map[string]struct {
		name string
		most int
	}{"/memory-drops": {"maxWrites", 5}, "/agent-cases": {"maxReads", 10}} {
		for value, status := range map[any]int{0: 400, -1: 400, 1: 201, uses.most: 201, uses.most + 1: 400, 1.5: 400, "2": 400} {
			c.Expect(status, "POST", path, map[string]any{uses.name: value}, session)
		}
		for value, status := range map[any]int{0: 400, 1: 201, 1440: 201, 1441: 400, "15": 400} {
			c.Expect(status, "POST", path, map[string]any{"expiresInMinutes": value}, session)
		}
		c.Expect(401, "POST", path, map[string]any{})
		c.Expect(400, "POST", path, `[]`, session)
		// This route refuses the other kind's member, like any that it does not know.
		other := map[string]string{"maxWrites": "maxReads", "maxReads": "maxWrites"}[uses.name]
		c.Expect(400, "POST", path, map[string]any{other: 1}, session)
	}
}

// TestLookingAtACaseSpendsNothing: prefetches, previews and range requests get the same
// refusal for a live token as for a dead one. They do not spend the read, nor does HEAD.
func TestLookingAtACaseSpendsNothing(t *testing.T) {
	c := shared(t).Extension[0]
	session := c.SignIn(stacktest.NewWallet())
	made := c.Expect(201, "POST", "/agent-cases", nil, session)
	alive := strings.TrimPrefix(made.Text("url"), c.URL)
	for name, look := range map[string]struct {
		header, value string
		status        int
	}{
		"prefetch":           {"Sec-Purpose", "prefetch", 403},
		"prerender":          {"Sec-Purpose", "prefetch;prerender", 403},
		"anonymous prefetch": {"Sec-Purpose", "prefetch;anonymous-client-ip", 403},
		"older prefetch":     {"Purpose", "prefetch", 403},
		"Safari's preview":   {"X-Purpose", "preview", 403},
		"Firefox's prefetch": {"X-Moz", "prefetch", 403},
		"first bytes":        {"Range", "bytes=0-32768", 416},
		"all bytes":          {"Range", "bytes=0-", 416},
	} {
		id := stacktest.With("X-Request-Id", "the-same")
		got := c.Expect(look.status, "GET", alive, nil, stacktest.With(look.header, look.value), id)
		dead := c.Expect(look.status, "GET", "/agent-cases/svc_case_unknown", nil, stacktest.With(look.header, look.value), id)
		if string(got.Body) != string(dead.Body) {
			t.Errorf("%s: %s for a live token, %s for a dead one", name, got.Body, dead.Body)
		}
	}
	c.Expect(405, "HEAD", alive, nil)
	if n := c.Expect(200, "GET", "/agent-cases/"+made.Text("id")+"/status", nil, session).Number("readCount"); n != 0 {
		t.Errorf("looking spent %d reads", n)
	}
	c.Expect(200, "GET", alive, nil)
	c.Expect(404, "GET", alive, nil)
	c.Expect(403, "GET", alive, nil, stacktest.With("Purpose", "prefetch"))
}

func tokenOf(minted stacktest.Answer) string {
	url := minted.Text("url")
	return url[strings.LastIndex(url, "/")+1:]
}

// alike reports an error if answers differ in anything that could tell why they refuse.
func alike(t *testing.T, answers map[string]stacktest.Answer) {
	t.Helper()
	forms := map[string]string{}
	for why, a := range answers {
		body := string(a.Body)
		if id := a.Header.Get("X-Request-Id"); id != "" {
			body = strings.ReplaceAll(body, id, "")
		}
		forms[body+headerNames(a.Header)] = why
	}
	if len(forms) != 1 {
		t.Errorf("%d different refusals: %q", len(forms), forms)
	}
}

// TestDeadTokensAreRefusedAlike: the answer does not tell why a grant's token opens
// nothing, whatever the body is. Neither does the page.
func TestDeadTokensAreRefusedAlike(t *testing.T) {
	s := shared(t)
	base, projected := common.Beside(t)
	c := s.Extension[0]
	session := c.SignIn(stacktest.NewWallet())
	key := stacktest.With("Idempotency-Key", "k")
	for _, grant := range []struct {
		path, prefix, method string
		bodies               []any
		uses                 int
	}{
		{"/agent-cases", "svc_case_", "GET", []any{nil}, 200},
		{"/memory-drops", "svc_drop_", "POST", []any{map[string]any{"content": "x"}, `{"content":1}`, `nope`}, 201},
	} {
		mint := func() (id, token string) {
			m := c.Expect(201, "POST", grant.path, nil, session)
			return m.Text("id"), tokenOf(m)
		}
		unknown, _ := signin.NewToken(grant.prefix)
		_, spent := mint()
		c.Expect(grant.uses, grant.method, grant.path+"/"+spent, grant.bodies[0])
		id, revoked := mint()
		c.Expect(200, "POST", grant.path+"/"+id+"/revoke", nil, session)
		_, superseded := mint()
		id, expired := mint()
		noErr(t, projected.WaitAll(t.Context()))
		noErr(t, errorOf(base.Pool.Exec(t.Context(), `UPDATE grants SET expires_at = now() WHERE id = $1`, id)))
		answers, pages := map[string]stacktest.Answer{}, map[string]stacktest.Answer{}
		for why, token := range map[string]string{
			"unknown": unknown, "spent": spent, "revoked": revoked, "superseded": superseded, "expired": expired, "malformed": "x",
		} {
			pages[why] = c.Expect(404, "GET", grant.path+"/"+token, nil, navigates)
			isPage(t, pages[why], "This link opens nothing")
			for _, body := range grant.bodies {
				answers[why] = c.Expect(404, grant.method, grant.path+"/"+token, body)
				answers[why+", with a key"] = c.Expect(404, grant.method, grant.path+"/"+token, body, key)
			}
		}
		alike(t, answers)
		alike(t, pages)
	}
}

// TestDeadCredentialsAreRefusedAlike does the same for API keys and extension sessions. A
// replica that saw a credential alive refuses it for its death, not for its body.
func TestDeadCredentialsAreRefusedAlike(t *testing.T) {
	s := shared(t)
	base, projected := common.Beside(t)
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	owner := core.SignIn(wallet)
	note := map[string]any{"content": "x", "source": "s"}
	for _, api := range []struct {
		to     *stacktest.Client
		prefix string
		make   func() (token string, revoke func())
		expire string
	}{
		{extension, signin.ExtensionTokenPrefix, func() (string, func()) {
			token := extension.Token(wallet)
			return token, func() { extension.Expect(200, "POST", "/auth/logout", nil, stacktest.Bearer(token)) }
		}, `UPDATE sessions SET expires_at = now() WHERE token_hash = $1`},
		{core, "svc_", func() (string, func()) {
			made := core.Expect(201, "POST", "/keys", map[string]any{"label": "x"}, owner)
			return made.Text("key"), func() { core.Expect(200, "DELETE", "/keys/"+made.Text("id"), nil, owner) }
		}, `UPDATE api_keys SET expires_at = now() WHERE hash = $1`},
	} {
		unknown, _ := signin.NewToken(api.prefix)
		revoked, revoke := api.make()
		api.to.Expect(201, "POST", "/memories", note, stacktest.Bearer(revoked)) // remembered as alive
		revoke()
		expired, _ := api.make()
		hash := signin.HashToken(expired)
		noErr(t, projected.WaitAll(t.Context()))
		noErr(t, errorOf(base.Pool.Exec(t.Context(), api.expire, hash[:])))
		for _, request := range []struct {
			method, path string
			body         any
		}{
			{"POST", "/memories", `nope`}, {"POST", "/memories", note}, {"GET", "/memories", nil},
		} {
			answers := map[string]stacktest.Answer{}
			for why, token := range map[string]string{"revoked": revoked, "unknown": unknown, "expired": expired, "malformed": api.prefix + "x"} {
				answers[why] = api.to.Expect(401, request.method, request.path, request.body, stacktest.Bearer(token))
			}
			alike(t, answers)
		}
	}
}
