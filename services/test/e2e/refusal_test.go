package e2e_test

import (
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/signin"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

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
