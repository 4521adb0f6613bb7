package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// makeKey makes a key with scopes. Without scopes it gets the default.
func makeKey(core *stacktest.Client, session stacktest.Header, scopes ...string) (id, key string) {
	body := map[string]any{"label": "x"}
	if len(scopes) > 0 {
		body["scopes"] = scopes
	}
	made := core.Expect(201, "POST", "/keys", body, session)
	return made.Text("id"), made.Text("key")
}

// TestKeyScopes: a key's agents may do exactly what the key was made for. TestWhoMayDoWhat
// shows the same of the routes.
func TestKeyScopes(t *testing.T) {
	core := shared(t).Core[0]
	session := core.SignIn(stacktest.NewWallet())
	kept := core.Expect(201, "POST", "/memories", map[string]any{"content": "kept"}, session).Text("id")
	tools := map[string]string{"recall": "read", "recent": "read", "get": "read", "search": "read", "fetch": "read", "prove": "read", "open_case": "share", "remember": "write", "leave_memory": "share", "retract": "retract"}
	for _, scopes := range [][]string{{"read"}, {"write"}, {"retract"}, {"read", "write"}, {"share"}, {"read", "write", "retract", "share"}, nil} {
		_, token := makeKey(core, session, scopes...)
		may := scopes
		if may == nil {
			may = []string{"read", "write"}
		}
		connected := agent(t, core, token)
		for tool, scope := range tools {
			arguments := map[string]any{}
			switch tool {
			case "search":
				arguments["query"] = "kept"
			case "get", "prove", "fetch":
				arguments["id"] = kept
			case "retract":
				arguments["id"] = core.Expect(201, "POST", "/memories", map[string]any{"content": "x"}, session).Text("id")
			case "remember":
				arguments["memories"] = []any{map[string]any{"content": "x"}}
			}
			result, text := call(t, connected, tool, arguments)
			if want := !slices.Contains(may, scope); result.IsError != want || want && !strings.Contains(text, "does not have the scope") {
				t.Errorf("%s with %v: error %v, %s", tool, scopes, result.IsError, text)
			}
		}
		_, err := connected.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "ledger://log"})
		if (err == nil) != slices.Contains(may, "read") {
			t.Errorf("the log with %v: %v", scopes, err)
		}
	}
}

// TestKeysThatExpire: the requested values are shown, and impossible ones are refused.
// TestDeadCredentialsAreRefusedAlike shows that an expired key is dead.
func TestKeysThatExpire(t *testing.T) {
	core := shared(t).Core[0]
	session := core.SignIn(stacktest.NewWallet())
	made := core.Expect(201, "POST", "/keys", map[string]any{
		"label": "x", "scopes": []string{"retract", "read", "read"}, "expiresAt": "2099-06-01T12:00:00.1239+02:00",
	}, session)
	core.Expect(201, "POST", "/keys", map[string]any{"label": "y"}, session)
	for i, want := range []struct{ scopes, expires string }{{"[read retract]", "2099-06-01T10:00:00.123Z"}, {"[read write]", "<nil>"}} {
		listed := decode[[]map[string]any](t, core.Expect(200, "GET", "/keys", nil, session).Body)[i]
		if fmt.Sprint(listed["scopes"]) != want.scopes || fmt.Sprint(listed["expiresAt"]) != want.expires || listed["namespaces"] != nil || listed["app"] != nil {
			t.Errorf("listed %v", listed)
		}
		if i == 0 && (fmt.Sprint(made.Field("scopes")) != want.scopes || made.Text("expiresAt") != want.expires) {
			t.Errorf("made %s", made.Body)
		}
	}
	for name, bad := range map[string]any{
		"scopes": []any{[]string{}, []string{"admin"}, []string{"read", ""}, "read", nil, []any{"read", nil}, []any{1}, map[string]any{}},
		"expiresAt": []any{
			time.Now().Add(-time.Second).Format(time.RFC3339Nano), "2026-01-01T00:00:00Z", "tomorrow", "2099-01-01", "", nil, 4102444800,
			"9999-12-31T23:59:59-23:00", "10000-01-01T00:00:00Z",
		},
	} {
		for _, value := range bad.([]any) {
			core.Expect(400, "POST", "/keys", map[string]any{"label": "x", name: value}, session)
		}
	}
}

// TestAGuestTestsNoGuesses: a key that may not read can't find out what the owner wrote. It
// gets other leaves for the same text, and none of the owner's answers for the same
// Idempotency-Key. Receipts, exports and the audit recompute its leaves.
func TestAGuestTestsNoGuesses(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	session, visitor := core.SignIn(wallet), extension.SignIn(wallet)
	key := func(scopes ...string) stacktest.Header {
		_, secret := makeKey(core, session, scopes...)
		return stacktest.Bearer(secret)
	}
	reader, guest, other := key("read", "write"), key("write", "retract"), key("write")
	pin := map[string]any{"content": "The PIN of my card is 4931", "source": "phone"}
	once := stacktest.With("Idempotency-Key", "once")
	first := core.Expect(201, "POST", "/memories", pin, session, once)
	owned := first.Text("leafHash")

	hashes := map[string]string{}
	hashes["a batch"] = decode[[]map[string]any](t, core.Expect(201, "POST", "/memories/batch", map[string]any{"memories": []any{pin}}, guest).Body)[0]["leafHash"].(string)
	hashes["another replica"] = s.Core[1].Expect(201, "POST", "/memories", pin, guest).Text("leafHash")
	mine := core.Expect(201, "POST", "/memories", pin, guest, once) // the owner's Idempotency-Key
	hashes["a repetition"] = core.Expect(201, "POST", "/memories", pin, guest, once).Text("leafHash")
	for name, hash := range hashes {
		if hash == owned || hash != mine.Text("leafHash") {
			t.Errorf("%s: leaf %s, owner's %s, guest's %s", name, hash, owned, mine.Text("leafHash"))
		}
	}
	limited := stacktest.Bearer(core.Expect(201, "POST", "/keys", map[string]any{"label": "work", "scopes": []string{"read", "write"}, "namespaces": []string{"work"}}, session).Text("key"))
	if again := core.Expect(201, "POST", "/memories", map[string]any{"content": "at work"}, limited, once); again.Text("id") == first.Text("id") {
		t.Error("a key for one namespace gets the owner's answer from another")
	}
	foreign := core.Expect(201, "POST", "/memories", map[string]any{"content": "another text"}, other, once)
	if again := core.Expect(201, "POST", "/memories", map[string]any{"content": "another text"}, other, once); again.Text("id") != foreign.Text("id") {
		t.Errorf("repeated: %s, first %s", again.Body, foreign.Body)
	}
	core.Expect(422, "POST", "/memories", pin, other, once)
	batch := map[string]any{"memories": []any{pin}}
	core.Expect(201, "POST", "/memories/batch", map[string]any{"memories": []any{map[string]any{"content": "x"}}}, session, once)
	core.Expect(201, "POST", "/memories/batch", batch, guest, once)
	if hash := core.Expect(201, "POST", "/memories", pin, other).Text("leafHash"); hash == owned || hash == mine.Text("leafHash") {
		t.Errorf("two guests share the leaf %s", hash)
	}

	// Keys that may read, the extension API and drops make the same leaf as the owner.
	drop := extension.Expect(201, "POST", "/memory-drops", nil, visitor)
	for name, hash := range map[string]string{
		"a reading key": core.Expect(201, "POST", "/memories", pin, reader).Text("leafHash"),
		"the extension": extension.Expect(201, "POST", "/memories", pin, visitor).Text("leafHash"),
		"a drop":        extension.Expect(201, "POST", "/memory-drops/"+tokenOf(drop), pin).Text("leafHash"),
	} {
		if hash != owned {
			t.Errorf("%s: leaf %s, owner's %s", name, hash, owned)
		}
	}

	for _, id := range []string{first.Text("id"), mine.Text("id"), foreign.Text("id")} {
		saved, err := verify.ParseReceipt(core.Expect(200, "GET", "/memories/"+id+"/receipt", nil, session).Body)
		if err == nil {
			err = saved.Verify()
		}
		if err != nil {
			t.Errorf("receipt of %s: %v", id, err)
		}
	}
	if _, opened := verifyExport(t, core.Expect(200, "GET", "/export", nil, reader).Body); opened != 12 {
		t.Errorf("export: %d opened", opened)
	}
	wantAudit(t, s.Config)
}
