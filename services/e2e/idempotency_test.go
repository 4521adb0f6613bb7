package e2e_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/memory-ledger/ledger/services/stacktest"
)

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	wallet := stacktest.NewWallet()
	session, other := s.Core[0].SignIn(wallet), s.Extension[0].SignIn(wallet)
	key := stacktest.With("Idempotency-Key", "order-66!")
	first := s.Core[0].Expect(201, "POST", "/memories", `{"content":"x","metadata":{"a":1,"b":2}}`, session, key)
	// The same body, spelt differently, on another replica.
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
	// Another owner's key is another key.
	stranger := s.Core[0].SignIn(stacktest.NewWallet())
	s.Core[0].Expect(201, "POST", "/memories", `{"content":"y"}`, stranger, key)
	for _, bad := range []string{"", " ", "with space", strings.Repeat("k", 256), "é"} {
		s.Core[0].Expect(400, "POST", "/memories", `{"content":"x"}`, session, stacktest.With("Idempotency-Key", bad))
	}
	if head := s.Core[0].Expect(200, "GET", "/log", nil, session); head.Number("treeSize") != 3 {
		t.Errorf("log %s", head.Body)
	}
}

func TestIdempotencyKeyUnderRace(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	session := s.Core[0].SignIn(stacktest.NewWallet())
	const tries = 40
	answers := make([]string, tries)
	var group sync.WaitGroup
	for i := range tries {
		group.Go(func() {
			a := s.Core[i%2].Expect(201, "POST", "/memories", `{"content":"once"}`, session, stacktest.With("Idempotency-Key", "k"))
			answers[i] = string(a.Body)
		})
	}
	group.Wait()
	for _, a := range answers {
		if a != answers[0] {
			t.Errorf("%s and %s", a, answers[0])
		}
	}
	if head := s.Core[0].Expect(200, "GET", "/log", nil, session); head.Number("treeSize") != 1 {
		t.Errorf("log %s", head.Body)
	}
}
