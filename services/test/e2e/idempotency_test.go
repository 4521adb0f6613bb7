package e2e_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

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
	mint := func(writes int) (id, path string) {
		a := s.Extension[0].Expect(201, "POST", "/memory-drops", map[string]any{"maxWrites": writes}, session)
		return a.Text("id"), "/memory-drops/" + tokenOf(a)
	}
	key := stacktest.With("Idempotency-Key", "k")
	_, earlier := mint(2)
	s.Extension[0].Expect(201, "POST", earlier, `{"content":"x"}`, key)

	id, path := mint(1) // revokes the earlier one
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
	id, path = mint(5)
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
