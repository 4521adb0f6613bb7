package e2e_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/oauth"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// app is a registered app.
type app struct {
	core *stacktest.Client
	url.Values
}

const verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

// newApp registers an app and returns a good authorization request.
func newApp(core *stacktest.Client) app {
	core.TB().Helper()
	const redirect = "https://assistant.example/callback"
	id := core.Expect(201, "POST", "/oauth/register", map[string]any{"client_name": "Assistant", "redirect_uris": []string{redirect}, "software_id": "unknown members do no harm"}).Text("client_id")
	challenge := sha256.Sum256([]byte(verifier))
	return app{core, url.Values{
		"client_id": {id}, "redirect_uri": {redirect}, "response_type": {"code"}, "state": {"s t"}, "scope": {"read write"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"}, "resource": {core.URL + "/mcp"},
	}}
}

// with returns the request with a parameter changed, or without it.
func (a app) with(name string, values ...string) app {
	changed := url.Values{}
	maps.Copy(changed, a.Values)
	changed[name] = values
	return app{a.core, changed}
}

func (a app) path() string { return "/oauth/authorize?" + a.Encode() }

// allow consents and returns the answer's parameters.
func (a app) allow(session stacktest.Header, terms map[string]any) url.Values {
	a.core.TB().Helper()
	to, err := url.Parse(a.core.Expect(200, "POST", a.path(), terms, session).Text("redirect"))
	noErr(a.core.TB(), err)
	if got := to.Scheme + "://" + to.Host + to.Path; got != a.Get("redirect_uri") {
		a.core.TB().Errorf("the answer goes to %s", got)
	}
	return to.Query()
}

// form is the token request for a code, with pairs of names and values changed.
func (a app) form(code string, changes ...string) string {
	form := url.Values{
		"grant_type": {"authorization_code"}, "client_id": a.Values["client_id"], "code": {code}, "code_verifier": {verifier},
		"redirect_uri": a.Values["redirect_uri"], "resource": a.Values["resource"],
	}
	for i := 0; i < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
	}
	return form.Encode()
}

// refresh is the token request for a refresh token.
func (a app) refresh(token string, changes ...string) string {
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": a.Values["client_id"], "refresh_token": {token}}
	for i := 0; i < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
	}
	return form.Encode()
}

// connect allows the app and exchanges the code.
func (a app) connect(session stacktest.Header, terms map[string]any) stacktest.Answer {
	a.core.TB().Helper()
	return a.core.Expect(200, "POST", "/oauth/token", a.form(a.allow(session, terms).Get("code")), asForm)
}

// denied checks that a token request is refused with an error of RFC 6749.
func denied(c *stacktest.Client, form, code string) {
	c.TB().Helper()
	a := c.Expect(400, "POST", "/oauth/token", form, asForm)
	if a.Text("error") != code || a.Text("error_description") == "" {
		c.TB().Errorf("refused with %s, want %s", a.Body, code)
	}
}

// TestAppOfTheSDK: the protocol's own Go client connects from the URL alone. It discovers,
// registers, gets consent, and calls tools.
func TestAppOfTheSDK(t *testing.T) {
	core := shared(t).Core[0]
	session := core.SignIn(stacktest.NewWallet())
	const redirect = "http://127.0.0.1:49152/callback"
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "SDK", RedirectURIs: []string{redirect}, GrantTypes: []string{"authorization_code", "refresh_token"},
		}},
		RequestRefreshToken: true,
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			path := strings.TrimPrefix(args.URL, core.URL)
			core.Expect(200, "GET", path, nil, navigates)
			to, err := url.Parse(core.Expect(200, "POST", path, map[string]any{}, session).Text("redirect"))
			return &auth.AuthorizationResult{Code: to.Query().Get("code"), State: to.Query().Get("state"), Iss: to.Query().Get("iss")}, err
		},
	})
	noErr(t, err)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	connected, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: core.URL + "/mcp", OAuthHandler: handler}, nil)
	noErr(t, err)
	defer connected.Close()
	if result, text := call(t, connected, "remember", map[string]any{"memories": []any{map[string]any{"content": "The bees are in the garden"}}}); result.IsError {
		t.Error(text)
	}
	if listed := keysOf(t, core, session); len(listed) != 1 || listed[0].App == nil || *listed[0].App != (appOfKey{"SDK", "127.0.0.1:49152"}) || fmt.Sprint(listed[0].Scopes) != "[read write]" {
		t.Errorf("listed %+v", listed)
	}
}

type appOfKey struct{ Name, RedirectHost string }

type listedKey struct {
	ID         string
	App        *appOfKey
	Scopes     []string
	Namespaces []string
	ExpiresAt  *string
	RevokedAt  *string
}

func keysOf(t *testing.T, core *stacktest.Client, session stacktest.Header) []listedKey {
	t.Helper()
	return decode[[]listedKey](t, core.Expect(200, "GET", "/keys", nil, session).Body)
}

// TestAppIsAKey: an app can do what its user allowed, on each replica, refreshes its tokens
// on another replica, and is dead on the request after its key was revoked.
func TestAppIsAKey(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	core, other := s.Core[0], s.Core[1]
	session := core.SignIn(stacktest.NewWallet())
	core.Expect(201, "POST", "/memories", map[string]any{"content": "mine alone", "namespace": "home"}, session)
	shared := core.Expect(201, "POST", "/memories", map[string]any{"content": "for work", "namespace": "work"}, session).Text("id")

	_, js := natstest.Connect(t, s.NATSURL)
	bucket, err := js.KeyValue(t.Context(), oauth.Bucket)
	noErr(t, err)
	a := newApp(core).with("scope", "read write offline_access")
	answer := a.allow(session, map[string]any{"scopes": []string{"read"}, "namespaces": []string{"work"}, "expiresAt": "2099-01-01T00:00:00Z", "unknown": 1})
	if answer.Get("iss") != core.URL || answer.Get("state") != "s t" {
		t.Errorf("the answer %v names neither its issuer nor the state", answer)
	}
	if kept, err := bucket.Status(t.Context()); err != nil || kept.Bytes() > 0 { // codes that are never exchanged would fill it
		t.Errorf("a consent stores %+v, %v", kept, err)
	}
	granted := core.Expect(200, "POST", "/oauth/token", a.form(answer.Get("code")), asForm)
	if granted.Text("scope") != "read" || granted.Text("token_type") != "Bearer" || granted.Number("expires_in") != 3600 || strings.Count(granted.Text("access_token"), ".") != 2 {
		t.Errorf("granted %s", granted.Body)
	}
	// A restarted service has none of the first one's memory, like the second replica.
	renewed := other.Expect(200, "POST", "/oauth/token", a.refresh(granted.Text("refresh_token"), "resource", core.URL+"/mcp"), asForm)
	for _, c := range []*stacktest.Client{core, other} {
		for _, token := range []string{granted.Text("access_token"), renewed.Text("access_token")} {
			read := decode[[]struct{ ID string }](t, c.Expect(200, "GET", "/memories", nil, stacktest.Bearer(token)).Body)
			if len(read) != 1 || read[0].ID != shared {
				t.Errorf("the app reads %v", read)
			}
			c.Expect(403, "POST", "/memories", map[string]any{"content": "x"}, stacktest.Bearer(token))
			c.Expect(403, "GET", "/keys", nil, stacktest.Bearer(token))
			c.Expect(403, "POST", a.path(), map[string]any{}, stacktest.Bearer(token))
		}
	}
	listed := keysOf(t, core, session)
	if len(listed) != 1 || *listed[0].App != (appOfKey{"Assistant", "assistant.example"}) || fmt.Sprint(listed[0].Namespaces) != "[work]" || *listed[0].ExpiresAt != "2099-01-01T00:00:00.000Z" {
		t.Fatalf("listed %+v", listed)
	}
	core.Expect(200, "DELETE", "/keys/"+listed[0].ID, nil, session)
	other.Expect(401, "GET", "/memories", nil, stacktest.Bearer(renewed.Text("access_token")))
	denied(other, a.refresh(renewed.Text("refresh_token")), "invalid_grant")

	// An app that its own client ends is revoked, too, also one whose entry is lost, as after
	// a restore. Another app can't end it.
	again := a.connect(session, map[string]any{})
	token := stacktest.Bearer(again.Text("access_token"))
	other.Expect(201, "POST", "/memories", map[string]any{"content": "written by the app"}, token)
	revoke := func(status int, token, client string) {
		t.Helper()
		core.Expect(status, "POST", "/oauth/revoke", url.Values{"token": {token}, "client_id": {client}}.Encode(), asForm)
	}
	revoke(400, again.Text("refresh_token"), "https://evil.example/client.json")
	revoke(200, "unknown", a.Get("client_id"))
	other.Expect(200, "GET", "/memories", nil, token)
	revoke(200, again.Text("access_token"), a.Get("client_id"))
	other.Expect(401, "GET", "/memories", nil, token)
	again = a.connect(session, map[string]any{})
	id := keysOf(t, core, session)[2].ID
	noErr(t, errorOf(bucket.Put(t.Context(), id, []byte(`{"gen`)))) // damaged: the app is to connect again
	denied(other, a.refresh(again.Text("refresh_token")), "invalid_grant")
	noErr(t, bucket.Delete(t.Context(), id))
	revoke(200, again.Text("refresh_token"), a.Get("client_id"))
	if live := slices.DeleteFunc(keysOf(t, core, session), func(k listedKey) bool { return k.RevokedAt != nil }); len(live) > 0 {
		t.Errorf("still live: %+v", live)
	}
}

// TestAppReplays: the second use of a code or a refresh token ends the app. The tokens of
// both users are dead then.
func TestAppReplays(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	core, other := s.Core[0], s.Core[1]
	session := core.SignIn(stacktest.NewWallet())
	a := newApp(core)

	// The first use of a code gives tokens also while the read models can't be written.
	db, err := pgx.Connect(t.Context(), s.Config.DatabaseURL)
	noErr(t, err)
	code := a.allow(session, map[string]any{}).Get("code")
	noErr(t, errorOf(db.Exec(t.Context(), `BEGIN; LOCK TABLE ledger.api_keys IN EXCLUSIVE MODE`)))
	first := core.Expect(200, "POST", "/oauth/token", a.form(code), asForm)
	noErr(t, db.Close(t.Context()))
	core.Expect(200, "GET", "/memories", nil, stacktest.Bearer(first.Text("access_token")))
	denied(other, a.form(code), "invalid_grant")
	core.Expect(401, "GET", "/memories", nil, stacktest.Bearer(first.Text("access_token")))
	denied(core, a.refresh(first.Text("refresh_token")), "invalid_grant")

	stolen := a.connect(session, map[string]any{}).Text("refresh_token")
	thief := other.Expect(200, "POST", "/oauth/token", a.refresh(stolen), asForm)
	denied(core, a.refresh(stolen), "invalid_grant")
	other.Expect(401, "GET", "/memories", nil, stacktest.Bearer(thief.Text("access_token")))
	denied(other, a.refresh(thief.Text("refresh_token")), "invalid_grant")

	// At the same time, at most one succeeds, and its tokens are dead, too.
	code = a.allow(session, map[string]any{}).Get("code")
	answers := make(chan stacktest.Answer, 8)
	for i := range cap(answers) {
		go func() { answers <- s.Core[i%2].Do("POST", "/oauth/token", a.form(code), asForm) }()
	}
	granted := []string{}
	for range cap(answers) {
		if answer := <-answers; answer.Status == 200 {
			granted = append(granted, answer.Text("access_token"))
		}
	}
	if len(granted) > 1 {
		t.Errorf("%d exchanges of one code", len(granted))
	}
	for _, token := range granted {
		core.Expect(401, "GET", "/memories", nil, stacktest.Bearer(token))
	}
	if live := slices.DeleteFunc(keysOf(t, core, session), func(k listedKey) bool { return k.RevokedAt != nil }); len(live) > 0 {
		t.Errorf("still live: %+v", live)
	}
}

// TestAppAttacks: requests that RFC 9700 warns of are refused. No refused request sends the
// browser anywhere.
func TestAppAttacks(t *testing.T) {
	core := shared(t).Core[0]
	session := core.SignIn(stacktest.NewWallet())
	a := newApp(core)
	mine, _, _ := strings.Cut(a.Get("client_id"), ".")
	for name, bad := range map[string]app{
		"unknown client":            a.with("client_id", "x"),
		"altered client":            a.with("client_id", mine+".e30.AAAA"),
		"no client":                 a.with("client_id"),
		"two clients":               a.with("client_id", a.Get("client_id"), "x"),
		"another redirect":          a.with("redirect_uri", "https://evil.example/callback"),
		"redirect with a tail":      a.with("redirect_uri", a.Get("redirect_uri")+"/../x"),
		"no redirect":               a.with("redirect_uri"),
		"no PKCE":                   a.with("code_challenge"),
		"plain PKCE":                a.with("code_challenge_method", "plain"),
		"no resource":               a.with("resource"),
		"another resource":          a.with("resource", "https://evil.example/mcp"),
		"implicit flow":             a.with("response_type", "token"),
		"unknown scope":             a.with("scope", "admin"),
		"document at an address":    a.with("client_id", "https://127.0.0.1:1/client.json"),
		"document without TLS":      a.with("client_id", "http://assistant.example/client.json"),
		"document without a path":   a.with("client_id", "https://assistant.example"),
		"document with a user":      a.with("client_id", "https://x@assistant.example/client.json"),
		"document with a fragment":  a.with("client_id", "https://assistant.example/client.json#x"),
		"document with dot segment": a.with("client_id", "https://assistant.example/../client.json"),
	} {
		page := core.Expect(400, "GET", bad.path(), nil, navigates)
		if !strings.Contains(string(page.Body), "<h1>This app can't be connected") || page.Header.Get("Location") != "" || strings.Contains(string(page.Body), "evil") {
			t.Errorf("%s: %v %s", name, page.Header, page.Body)
		}
		if refusal := core.Expect(400, "POST", bad.path(), map[string]any{}, session); refusal.Text("error") == "" || refusal.Text("error_description") == "" {
			t.Errorf("%s: %s", name, refusal.Body)
		}
	}
	for _, uri := range []string{"http://assistant.example/cb", "javascript:alert(1)", "https://assistant.example/cb#x", "https://x@assistant.example/cb", "custom://cb"} {
		if refusal := core.Expect(400, "POST", "/oauth/register", map[string]any{"redirect_uris": []string{uri}}); refusal.Text("error") != "invalid_redirect_uri" {
			t.Errorf("%s: %s", uri, refusal.Body)
		}
	}

	// The page can't be framed, and no other site can consent: it has no session, and a
	// session is not a cookie.
	page := core.Expect(200, "GET", a.path(), nil, navigates)
	if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || page.Header.Get("X-Frame-Options") != "DENY" || len(page.Header.Values("Set-Cookie")) > 0 {
		t.Errorf("headers of the page: %v", page.Header)
	}
	for _, want := range []string{"Assistant", "Nobody has checked it", "assistant.example", "access_denied", url.QueryEscape(core.URL)} {
		if !strings.Contains(string(page.Body), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	core.Expect(401, "POST", a.path(), map[string]any{})
	core.Expect(400, "POST", a.path(), map[string]any{"scopes": []string{"retract"}}, session)
	posing := map[string]any{"client_name": " <b>Bank</b>\u202e\n\u200b ", "redirect_uris": a.Values["redirect_uri"]}
	if name := core.Expect(201, "POST", "/oauth/register", posing).Text("client_name"); name != "<b>Bank</b>" {
		t.Errorf("named %q", name)
	}

	// A code is for the app, the redirect URI, the verifier and the resource that asked. A
	// wrong try does not use it up.
	code := a.allow(session, map[string]any{}).Get("code")
	for name, bad := range map[string][2]string{
		"another app":       {a.form(code, "client_id", newApp(core).with("redirect_uri", "x").Get("client_id")+"x"), "invalid_client"},
		"app of another":    {a.form(code, "client_id", "https://evil.example/client.json"), "invalid_grant"},
		"another redirect":  {a.form(code, "redirect_uri", "https://evil.example/callback"), "invalid_grant"},
		"another verifier":  {a.form(code, "code_verifier", strings.Repeat("x", 43)), "invalid_grant"},
		"another resource":  {a.form(code, "resource", core.URL), "invalid_target"},
		"an altered code":   {a.form(code + "x"), "invalid_grant"},
		"no client":         {a.form(code, "client_id", ""), "invalid_request"},
		"no grant":          {a.form(code, "grant_type", ""), "invalid_request"},
		"a session as code": {a.form(core.Token(stacktest.NewWallet())), "invalid_grant"},
		"another grant":     {a.form(code, "grant_type", "password"), "unsupported_grant_type"},
		"repeated":          {a.form(code) + "&code=" + code, "invalid_request"},
	} {
		t.Run(name, func(*testing.T) { denied(core, bad[0], bad[1]) })
	}
	granted := core.Expect(200, "POST", "/oauth/token", a.form(code), asForm)
	denied(core, a.refresh(granted.Text("refresh_token"), "client_id", "https://evil.example/client.json"), "invalid_grant")
	denied(core, a.refresh(granted.Text("refresh_token"), "resource", "https://evil.example"), "invalid_target")
	denied(core, a.refresh(granted.Text("access_token")), "invalid_grant")
	denied(core, a.refresh(""), "invalid_request")
	core.Expect(401, "GET", "/memories", nil, stacktest.Bearer(granted.Text("refresh_token")))
	core.Expect(401, "GET", "/memories", nil, stacktest.Bearer(code))
	core.Expect(401, "GET", "/memories", nil, stacktest.Bearer(granted.Text("access_token")+"x"))
	core.Expect(200, "GET", "/memories", nil, stacktest.Bearer(granted.Text("access_token")))

	// A code is lost with the session that allowed it.
	wallet := stacktest.NewWallet()
	leaving := core.SignIn(wallet)
	lost := a.allow(leaving, map[string]any{}).Get("code")
	core.Expect(200, "DELETE", "/auth/sessions", nil, core.SignIn(wallet))
	denied(core, a.form(lost), "invalid_grant")
}

// TestResearchTools: search and fetch have the form of ChatGPT's connectors. Their text is the
// JSON of the result, and the url opens the memory in the dashboard.
func TestResearchTools(t *testing.T) {
	core := shared(t).Core[0]
	session := core.SignIn(stacktest.NewWallet())
	id := core.Expect(201, "POST", "/memories", map[string]any{"content": "Ada's manager is Helena.\nShe sits in <Oslo>.", "source": "chat"}, session).Text("id")
	core.Expect(201, "POST", "/memories", map[string]any{"content": "The bees are in the garden"}, session)
	tools := agent(t, core, core.Token(stacktest.NewWallet()))
	if out, text := use(t, tools, "search", map[string]any{"query": "Ada"}); text != `{"results":[]}` || len(out) != 1 {
		t.Errorf("of another owner: %s", text)
	}
	_, key := makeKey(core, session)
	tools = agent(t, core, key)
	link := core.URL + "/app/#memory=" + id
	if _, text := use(t, tools, "search", map[string]any{"query": "who is Ada's manager?"}); text != `{"results":[{"id":"`+id+`","title":"Ada's manager is Helena.…","url":"`+link+`"}]}` {
		t.Errorf("search: %s", text)
	}
	out, text := use(t, tools, "fetch", map[string]any{"id": id})
	metadata, _ := out["metadata"].(map[string]any)
	if out["id"] != id || out["url"] != link || out["text"] != "Ada's manager is Helena.\nShe sits in <Oslo>." || metadata["source"] != "chat" || metadata["truncated"] != nil || !strings.HasPrefix(text, `{"id":"`+id+`",`) {
		t.Errorf("fetch: %v, %s", out, text)
	}
	refused(t, tools, "fetch", map[string]any{"id": "x"}, "No memory of this person has that id")
}

// answersToApps gets the documented answers of the routes of apps that depend on more than
// the credential.
func answersToApps(c *stacktest.Client, session stacktest.Header) {
	a, text := newApp(c), stacktest.With("Content-Type", "text/plain")
	for _, path := range []string{"/oauth/register", a.path(), "/oauth/token", "/oauth/revoke"} {
		c.Expect(415, "POST", path, `{}`, session, text)
	}
	for _, bad := range slices.Concat(notObjects, []string{`{"redirect_uris":1}`, `{"redirect_uris":null}`, `{"scopes":[]}`, `{"namespaces":[]}`, `{"expiresAt":"x"}`}) {
		c.Expect(400, "POST", "/oauth/register", bad)
		if !strings.Contains(bad, "redirect_uris") && !strings.Contains(bad, "content") {
			c.Expect(400, "POST", a.path(), bad, session)
		}
	}
	c.Expect(400, "GET", "/oauth/authorize", nil)
	c.Expect(400, "POST", "/oauth/revoke", "token=x&token=y", asForm)
	denied(c, "grant_type=%zz", "invalid_request")
	granted := a.connect(session, map[string]any{})
	c.Expect(200, "GET", a.path(), nil)
	c.Expect(200, "POST", "/oauth/revoke", url.Values{"token": {granted.Text("refresh_token")}, "client_id": {a.Get("client_id")}}.Encode(), asForm)
	origin := stacktest.With("Origin", "https://inspector.example")
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"} {
		if got := c.Expect(200, "GET", path, nil, origin).Header.Get("Access-Control-Allow-Origin"); got != "https://inspector.example" {
			c.TB().Errorf("%s is for pages of %q", path, got)
		}
	}
	c.Expect(204, "OPTIONS", "/oauth/token", nil, origin, stacktest.With("Access-Control-Request-Method", "POST"))
	c.Expect(403, "OPTIONS", "/oauth/authorize", nil, origin, stacktest.With("Access-Control-Request-Method", "POST"))
}

// isOfApps reports whether an operation needs more than a body: see answersToApps.
func isOfApps(op contracttest.Operation) bool { return strings.HasPrefix(op.Path, "/oauth/") }
