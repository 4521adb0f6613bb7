package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// erase erases an owner, with a challenge that the owner's wallet signs.
func erase(t *testing.T, core *stacktest.Client, wallet stacktest.Wallet) int {
	t.Helper()
	return core.Expect(200, "POST", "/erasure", erasure(t, core, wallet)).Number("erased")
}

// erasure is the body of a request to erase an owner.
func erasure(t *testing.T, core *stacktest.Client, wallet stacktest.Wallet) map[string]any {
	t.Helper()
	challenge := core.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey, "purpose": "erase"})
	if text := challenge.Text("message"); !strings.Contains(text, "ERASE") || !strings.Contains(text, "no way back") {
		t.Errorf("the wallet shows %q", text)
	}
	return wallet.Answer(challenge.Text("message"))
}

// TestErasure: after the answer, no replica returns an earlier text, all access has
// ended, proofs are unchanged, and the owner begins again with a new key.
func TestErasure(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	core, other, extension, wallet := s.Core[0], s.Core[1], s.Extension[0], stacktest.NewWallet()
	session, visitor := core.SignIn(wallet), extension.SignIn(wallet)
	key := stacktest.Bearer(core.Expect(201, "POST", "/keys", map[string]any{"label": "k"}, session).Text("key"))
	drop := tokenOf(extension.Expect(201, "POST", "/memory-drops", `{"maxWrites":5}`, visitor))
	openCase := tokenOf(extension.Expect(201, "POST", "/agent-cases", `{"maxReads":5}`, visitor))
	var id string
	const before = 256 + 3
	for n := range before {
		id = core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprintf("Secret thing %d", n)}, session).Text("id")
	}
	core.Expect(200, "DELETE", "/memories/"+id, nil, session)
	id = core.Expect(201, "POST", "/memories", map[string]any{"content": "Secret thing"}, session).Text("id")
	reads := []struct {
		method, path string
		body         any
	}{
		{"GET", "/memories", nil}, {"GET", "/memories?limit=3&cursor=256", nil}, {"GET", "/memories?order=newest&limit=5", nil},
		{"POST", "/memories/search", map[string]any{"query": "thing"}}, {"POST", "/memories/search", map[string]any{"query": "thing", "mode": "ranked"}},
		{"POST", "/memories/search", map[string]any{"query": "thing", "limit": 5, "order": "newest"}}, {"GET", "/export", nil},
	}
	for range 3 { // so that both replicas have keys, rows, texts and indexes in memory
		for _, c := range s.Core {
			for _, r := range reads {
				c.Expect(200, r.method, r.path, r.body, session)
			}
			c.Expect(200, "GET", "/memories/"+id, nil, session)
		}
	}
	proof := core.Expect(200, "GET", "/memories/"+id+"/proof", nil, session)

	if n := erase(t, core, wallet); n != before+1 {
		t.Errorf("%d leaves erased", n)
	}
	for _, c := range s.Core {
		c.Expect(401, "GET", "/memories", nil, session)
		c.Expect(401, "GET", "/memories", nil, key)
	}
	extension.Expect(401, "GET", "/memories", nil, visitor)
	extension.Expect(404, "POST", "/memory-drops/"+drop, `{"content":"x"}`)
	extension.Expect(404, "GET", "/agent-cases/"+openCase, nil)

	session = other.SignIn(wallet)
	for _, c := range s.Core {
		c.Expect(410, "GET", "/memories/"+id, nil, session)
		c.Expect(410, "GET", "/memories/"+id+"/receipt", nil, session)
		for _, r := range reads {
			if a := c.Expect(200, r.method, r.path, r.body, session); strings.Contains(string(a.Body), "thing") || r.path != "/export" && string(a.Body) != "[]" {
				t.Errorf("%s %s %v: %s", r.method, r.path, r.body, a.Body)
			}
		}
		if again := c.Expect(200, "GET", "/memories/"+id+"/proof", nil, session); string(again.Body) != string(proof.Body) {
			t.Errorf("the proof was\n%s and is\n%s", proof.Body, again.Body)
		}
	}
	fresh := core.Expect(201, "POST", "/memories", map[string]any{"content": "A new thing"}, session)
	if fresh.Number("leafIndex") != before+1 {
		t.Errorf("the log goes on with leaf %d", fresh.Number("leafIndex"))
	}
	for _, c := range s.Core {
		if n := c.Expect(200, "GET", "/log", nil, session).Number("memories"); n != 1 {
			t.Errorf("the log has %d memories", n)
		}
		for _, r := range reads {
			if a := c.Expect(200, r.method, r.path, r.body, session); strings.Contains(string(a.Body), "Secret") || !strings.Contains(string(a.Body), "A new thing") && !strings.Contains(r.path, "cursor=256") {
				t.Errorf("%s %s %v: %s", r.method, r.path, r.body, a.Body)
			}
		}
	}
	agrees(t, s)
	if n := erase(t, core, wallet); n != before+2 { // again
		t.Errorf("%d leaves erased", n)
	}
	agrees(t, s)
}

// TestAnErasureEndsRepetitions: nothing tells any more whether the body of a repeated write
// is the same, and the text must not come back. So a used Idempotency-Key is refused, and a
// drop is dead for everyone.
func TestAnErasureEndsRepetitions(t *testing.T) {
	s := shared(t)
	core, other, extension, wallet := s.Core[0], s.Core[1], s.Extension[0], stacktest.NewWallet()
	session, visitor := core.SignIn(wallet), extension.SignIn(wallet)
	once := stacktest.With("Idempotency-Key", "once")
	first := core.Expect(201, "POST", "/memories", `{"content":"a"}`, session, once)
	core.Expect(201, "POST", "/memories/batch", batchOf("b", "c"), session, once)
	drop := "/memory-drops/" + tokenOf(extension.Expect(201, "POST", "/memory-drops", `{"maxWrites":5}`, visitor))
	extension.Expect(201, "POST", drop, `{"content":"d"}`, once)
	erase(t, core, wallet)

	dead := string(extension.Expect(404, "POST", drop, `{"content":"d"}`).Body)
	dropIsDead := func() {
		t.Helper()
		for _, content := range []string{"d", "another"} {
			if a := extension.Expect(404, "POST", drop, map[string]any{"content": content}, once); string(a.Body) != dead {
				t.Errorf("a dead drop says %s and, with a used key, %s", dead, a.Body)
			}
		}
	}
	dropIsDead()
	session = other.SignIn(wallet)
	dropIsDead()
	for _, c := range s.Core {
		for path, body := range map[string]any{"/memories": `{"content":"a"}`, "/memories/batch": batchOf("b", "c")} {
			if a := c.Expect(422, "POST", path, body, session, once); !strings.Contains(a.Text("error"), "erased since") {
				t.Errorf("%s: %s", path, a.Body)
			}
		}
	}
	again := core.Expect(201, "POST", "/memories", `{"content":"a"}`, session, stacktest.With("Idempotency-Key", "twice"))
	if again.Text("leafHash") == first.Text("leafHash") || again.Number("leafIndex") != 4 {
		t.Errorf("stored again: %s", again.Body)
	}
	core.Expect(201, "POST", "/memories", `{"content":"a"}`, session, stacktest.With("Idempotency-Key", "twice"))
}

// TestErasureIsAskedForByTheWallet: only a signed erasure challenge erases. Any other
// answer is refused as at sign-in, and does not use up the good challenge.
func TestErasureIsAskedForByTheWallet(t *testing.T) {
	s := shared(t)
	core, extension, wallet, thief := s.Core[0], s.Extension[0], stacktest.NewWallet(), stacktest.NewWallet()
	session := core.SignIn(wallet)
	core.Expect(201, "POST", "/memories", `{"content":"kept"}`, session)
	ask := func(c *stacktest.Client, purpose any) stacktest.Answer {
		return c.Do("POST", "/auth/challenge", map[string]any{"publicKey": wallet.PublicKey, "purpose": purpose})
	}
	for _, purpose := range []any{"", "erasure", "ERASE", 1, []string{"erase"}} {
		if a := ask(core, purpose); a.Status != 400 {
			t.Errorf("purpose %v: %d %s", purpose, a.Status, a.Body)
		}
	}
	if a := ask(extension, "erase"); a.Status != 400 {
		t.Errorf("at the extension API: %d %s", a.Status, a.Body)
	}
	signIn, good := ask(core, "sign-in").Text("message"), ask(core, "erase").Text("message")
	core.Expect(401, "POST", "/erasure", wallet.Answer(signIn))
	core.Expect(401, "POST", "/auth/verify", wallet.Answer(good))
	forged := thief.Answer(good)
	forged["publicKey"] = wallet.PublicKey
	core.Expect(401, "POST", "/erasure", forged)
	core.Expect(400, "POST", "/erasure", thief.Answer(good))
	core.Expect(400, "POST", "/erasure", `{}`)
	core.Expect(401, "POST", "/erasure", wallet.Answer(strings.Replace(good, "ERASE all", "Keep all", 1)))
	core.Expect(200, "GET", "/memories", nil, session)
	core.Expect(200, "POST", "/erasure", wallet.Answer(good))
	core.Expect(401, "POST", "/erasure", wallet.Answer(good))
	// A wallet that never signed in has no leaves.
	if n := erase(t, core, thief); n != 0 {
		t.Errorf("%d leaves of a stranger", n)
	}
}

// TestAnOldKeyDoesNotComeBack: a backup of the keystore from before an erasure, restored
// beside the log from after it, makes no text readable. The audit reports the old key, as it
// does a key of an erasure that the log lacks, and the next sign-in destroys it.
func TestAnOldKeyDoesNotComeBack(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	core, wallet := s.Core[0], stacktest.NewWallet()
	session := core.SignIn(wallet)
	id := core.Expect(201, "POST", "/memories", `{"content":"secret"}`, session).Text("id")
	_, js := natstest.Connect(t, s.NATSURL)
	bucket, err := js.KeyValue(t.Context(), keystore.Bucket)
	noErr(t, err)
	old, err := bucket.Get(t.Context(), wallet.PublicKey)
	noErr(t, err)
	erase(t, core, wallet)
	for _, entry := range []struct{ value, told string }{
		{strings.Replace(string(old.Value()), "{", `{"erasures":2,`, 1), "from after erasure 2"}, // the log must have it
		{string(old.Value()), "from before erasure 1"},
	} {
		noErr(t, errorOf(bucket.PutString(t.Context(), wallet.PublicKey, entry.value)))
		var told []audit.Finding
		noErr(t, errorOf(assembly.Audit(t.Context(), s.Config, assembly.AuditOptions{Report: func(f audit.Finding) { told = append(told, f) }})))
		if len(told) != 1 || !strings.Contains(told[0].Detail, entry.told) {
			t.Errorf("%s: %+v", entry.told, told)
		}
	}
	session = core.SignIn(wallet)
	core.Expect(410, "GET", "/memories/"+id, nil, session)
	core.Expect(201, "POST", "/memories", `{"content":"new"}`, session)
	if now, err := bucket.Get(t.Context(), string(events.Owner(wallet.PublicKey))); err != nil || string(now.Value()) == string(old.Value()) {
		t.Errorf("the old key is still there, or %v", err)
	}
	agrees(t, s)
}
