package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/keystore/keystoretest"
)

// written is a source of unsealed texts.
type written struct {
	mu    sync.Mutex
	texts []string
	asked []Range
}

func (w *written) segments(_ context.Context, r Range, yield func(segment) error) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, r)
	for at := r.From; at < r.To; {
		end := min(r.To, (at/bodypages.Leaves+1)*bodypages.Leaves)
		to := min(end, at+100) // so that a page has several segments
		if err := yield(segmentOf(at, w.texts[at:to]...)); err != nil {
			return 0, err
		}
		at = to
	}
	return r.To, nil
}

// numbered returns a source of n texts.
func numbered(n int) *written {
	w := &written{}
	for i := range n {
		w.texts = append(w.texts, fmt.Sprintf("Text number %d", i))
	}
	return w
}

// ownerKeys returns empty ranges of n new owners with their keys.
func ownerKeys(t *testing.T, n int) (keys []Range) {
	t.Helper()
	store := keystoretest.Start(t)
	for range n {
		owner := logtest.Owner()
		key, err := store.FindOrCreate(t.Context(), owner, 0)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, Range{Owner: owner, Key: key})
	}
	return keys
}

func (r Range) upTo(to int) Range {
	r.To = uint64(to)
	return r
}

// checkFound searches for a number that only one text has.
func checkFound(t *testing.T, b *BodySegments, w *written, r Range) {
	t.Helper()
	e := &Engine{keptTexts{b, w}}
	found, err := e.Find(t.Context(), r, NewQuery(fmt.Sprintf("NUMBER %d", r.To-1)))
	if err != nil || found.Reached != r.To || !slices.Equal(found.Leaves, []uint64{r.To - 1}) {
		t.Fatalf("found %+v, %v", found, err)
	}
	checkCharged(t, b)
}

// checkCharged counts the kept bytes and compares them with the charged bytes and with
// the budget.
func checkCharged(t *testing.T, b *BodySegments) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var sum int64
	for _, owner := range b.owners.Keys() {
		o, _ := b.owners.Peek(owner)
		kept := int64(ownerOverhead)
		for n, p := range o.pages {
			kept += pageOverhead
			for _, s := range p.segments {
				kept += int64(cap(s.sealed))
				if bytes.Contains(s.sealed, []byte(" number ")) {
					t.Errorf("page %d is kept in the clear", n)
				}
			}
		}
		if kept != o.bytes {
			t.Errorf("%d bytes kept, %d charged", kept, o.bytes)
		}
		sum += kept
	}
	if sum != b.used || sum > b.budget {
		t.Errorf("%d bytes kept, %d counted, %d allowed", sum, b.used, b.budget)
	}
}

// TestKeptPagesAreNotReadAgain: when a log grows, only pages that are new or were not
// full are read. A search with an earlier end finds the texts up to that end.
func TestKeptPagesAreNotReadAgain(t *testing.T) {
	t.Parallel()
	r, w, b := ownerKeys(t, 1)[0], numbered(1500), NewBodySegments(1<<30)
	for _, c := range []struct{ to, from int }{{600, 0}, {600, -1}, {610, 512}, {600, -1}, {512, -1}, {1000, 512}, {1500, 768}, {1500, -1}} {
		w.asked = nil
		checkFound(t, b, w, r.upTo(c.to))
		if c.from < 0 != (len(w.asked) == 0) || c.from >= 0 && (len(w.asked) != 1 || w.asked[0].From != uint64(c.from) || w.asked[0].To != uint64(c.to)) {
			t.Errorf("up to %d: read %+v", c.to, w.asked)
		}
		if !b.Light(r.Owner, uint64(c.to), 1<<20) || b.Light(r.Owner, uint64(c.to), 1) {
			t.Errorf("up to %d leaves are not kept in few bytes", c.to)
		}
	}
	if b.Light(r.Owner, 1501, 1<<20) || b.Light("somebody else", 1, 1<<20) {
		t.Error("leaves are kept that were not read")
	}
	b.Forget()
	if w.asked = nil; b.Bytes() != 0 {
		t.Errorf("%d bytes are kept", b.Bytes())
	}
	checkFound(t, b, w, r.upTo(300))
	if len(w.asked) != 1 {
		t.Errorf("read %+v", w.asked)
	}
}

// TestWhatWasReadBeforeForgetIsNotKept: a page that was read before Forget is not kept,
// because it may come from other read models.
func TestWhatWasReadBeforeForgetIsNotKept(t *testing.T) {
	t.Parallel()
	r, w, b := ownerKeys(t, 1)[0], numbered(300), NewBodySegments(1<<30)
	r.To = 300
	e := &Engine{keptTexts{b, w}}
	yielded := 0
	reached, err := e.texts.segments(t.Context(), r, func(segment) error {
		if yielded++; yielded == 1 {
			b.Forget()
		}
		return nil
	})
	if err != nil || reached != 300 || b.Bytes() != 0 {
		t.Errorf("reached %d, %v, %d bytes are kept", reached, err, b.Bytes())
	}
}

// TestDamagedSegmentsAreNoAnswer: a segment that was not sealed for its place fails every
// search that reads it, including a search for a text in another segment.
func TestDamagedSegmentsAreNoAnswer(t *testing.T) {
	t.Parallel()
	both, w := ownerKeys(t, 2), numbered(3*bodypages.Leaves)
	r, other := both[0].upTo(len(w.texts)), both[1].upTo(len(w.texts))
	flip := func(at int) func(*sealedSegment, *ownerPages, *ownerPages) {
		return func(s *sealedSegment, _, _ *ownerPages) { s.sealed[(at+len(s.sealed))%len(s.sealed)] ^= 1 }
	}
	for name, damage := range map[string]func(s *sealedSegment, mine, others *ownerPages){
		"a nonce":                 flip(0),
		"a text":                  flip(20),
		"the tag":                 flip(-1),
		"cut short":               func(s *sealedSegment, _, _ *ownerPages) { s.sealed = s.sealed[:len(s.sealed)-1] },
		"nothing":                 func(s *sealedSegment, _, _ *ownerPages) { s.sealed = nil },
		"the page before":         func(s *sealedSegment, mine, _ *ownerPages) { s.sealed = mine.pages[0].segments[0].sealed },
		"another first leaf":      func(s *sealedSegment, _, _ *ownerPages) { s.first -= bodypages.Leaves },
		"somebody else's segment": func(s *sealedSegment, _, others *ownerPages) { *s = others.pages[1].segments[0] },
	} {
		b := NewBodySegments(1 << 30)
		checkFound(t, b, w, r)
		checkFound(t, b, w, other)
		mine, _ := b.owners.Peek(r.Owner)
		others, _ := b.owners.Peek(other.Owner)
		damage(&mine.pages[1].segments[0], mine, others)
		for range 2 {
			if found, err := (&Engine{keptTexts{b, w}}).Find(t.Context(), r, NewQuery("NUMBER 3")); !errors.Is(err, keystore.ErrSealed) {
				t.Errorf("%s: %+v, %v", name, found, err)
			}
		}
	}
}

// TestTheBudgetIsKept: the charged bytes equal the kept bytes, also for growing logs and
// for a log larger than the budget. The owner who searched last is kept.
func TestTheBudgetIsKept(t *testing.T) {
	t.Parallel()
	const budget = 40_000
	all, w, b := ownerKeys(t, 3), numbered(2000), NewBodySegments(budget)
	for round := range 12 {
		for i, r := range all {
			checkFound(t, b, w, r.upTo((30+20*i*i)*(round+1)))
		}
		if round < 6 && !b.Light(all[2].Owner, 110*uint64(round+1), budget) {
			t.Errorf("round %d: who searched last is not kept", round)
		}
	}
	if b.Bytes() == 0 {
		t.Error("nothing is kept")
	}
}

// TestOwnersWithoutPagesAreCharged: an owner without pages also takes memory.
func TestOwnersWithoutPagesAreCharged(t *testing.T) {
	t.Parallel()
	b := NewBodySegments(100 * ownerOverhead)
	for i := range 1000 {
		b.get(Range{Owner: events.Owner(fmt.Sprint(i))})
	}
	if n := b.owners.Len(); n != 100 || b.Bytes() != b.budget {
		t.Errorf("%d owners are kept, %d bytes charged", n, b.Bytes())
	}
}

// TestManySearchAtOnce: two owners search concurrently, for the first time and
// repeatedly.
func TestManySearchAtOnce(t *testing.T) {
	t.Parallel()
	both, w, b := ownerKeys(t, 2), numbered(1000), NewBodySegments(40_000)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := 100; n <= 1000; n += 100 {
				r := both[i%2].upTo(n)
				found, err := (&Engine{keptTexts{b, w}}).Find(t.Context(), r, NewQuery(strings.ToUpper(w.texts[n-1])))
				if err != nil || !slices.Equal(found.Leaves, []uint64{uint64(n - 1)}) {
					t.Errorf("up to %d: %+v, %v", n, found, err)
				}
			}
		})
	}
	group.Wait()
	checkCharged(t, b)
}
