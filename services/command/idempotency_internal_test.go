package command

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/memory-ledger/ledger/events"
)

func numbered(n int) (h events.Hash) {
	binary.BigEndian.PutUint32(h[:], uint32(n))
	return h
}

// TestUsedKeysAreKnown: no used key looks new, few new keys look used, and a set that is
// full begins again and knows nothing until the keys are added again.
func TestUsedKeysAreKnown(t *testing.T) {
	t.Parallel()
	const most = 1 << 12
	u := newUsedKeys(most)
	one, other := events.OwnerFromBytes(numbered(1)), events.OwnerFromBytes(numbered(2))
	var epoch int
	for n := range most {
		epoch = u.add(one, numbered(n))
	}
	looksUsed := 0
	for n := range most {
		if isNew, known := u.isNew(epoch, one, numbered(n)); isNew || !known {
			t.Fatalf("key %d was used: new %t, known %t", n, isNew, known)
		}
		if isNew, _ := u.isNew(epoch, other, numbered(n)); !isNew {
			looksUsed++
		}
	}
	if looksUsed > most/100 {
		t.Errorf("of %d new keys, %d look used", most, looksUsed)
	}
	again := u.add(one, numbered(most))
	if _, known := u.isNew(epoch, one, numbered(1)); known {
		t.Error("a set that began again knows of keys from before")
	}
	for key, want := range map[int]bool{most: false, 1: true} {
		if isNew, known := u.isNew(again, one, numbered(key)); isNew != want || !known {
			t.Errorf("key %d: new %t, known %t", key, isNew, known)
		}
	}
}

type leavesOnly struct {
	Loader
	leaves uint64
	asked  int
	err    error
}

func (l *leavesOnly) Leaves(context.Context, events.Owner) (uint64, error) {
	l.asked++
	return l.leaves, l.err
}

// TestAnswersAreTrimmed: the state drops answers that the read model has. It asks the read
// model rarely, also one that does not answer, and stays bounded if that has none of them.
func TestAnswersAreTrimmed(t *testing.T) {
	t.Parallel()
	loader := &leavesOnly{err: errors.New("down")}
	x, err := NewExecutor(Config{Loader: loader})
	if err != nil {
		t.Fatal(err)
	}
	s := NewState(events.OwnerFromBytes([32]byte{1}))
	remember := func(upTo uint64) (failed int) {
		for ; s.Leaves < upTo; s.Leaves++ {
			s.idempotent[numbered(int(s.Leaves))] = Written{LeafIndex: s.Leaves}
			if x.trim(t.Context(), s) != nil {
				failed++
			}
		}
		return failed
	}
	if failed := remember(8 * keptAnswers); failed != 4 || loader.asked != 4 {
		t.Errorf("asked %d times, %d failures", loader.asked, failed)
	}
	loader.leaves, loader.err = 100, nil
	if failed := remember(16*keptAnswers) + remember(100+mostAnswers-1); failed != 0 || len(s.idempotent) != mostAnswers-1 || loader.asked > 20 {
		t.Errorf("asked %d times, %d failures, %d answers are left", loader.asked, failed, len(s.idempotent))
	}
	s.idempotent[numbered(-1)] = Written{LeafIndex: s.Leaves}
	for range 2 {
		if err := x.trim(t.Context(), s); !errors.Is(err, ErrOverloaded) {
			t.Errorf("%d answers that nobody takes: %v", len(s.idempotent), err)
		}
	}
	loader.leaves = s.Leaves + 1
	if err := x.trim(t.Context(), s); err != nil || len(s.idempotent) != 0 {
		t.Errorf("once it has them: %d, %v", len(s.idempotent), err)
	}
}
