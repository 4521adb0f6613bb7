package e2e_test

import (
	"testing"

	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

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
