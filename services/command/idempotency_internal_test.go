package command

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"

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
// model rarely, and no write fails because the read model does not answer, until there are
// too many answers.
func TestAnswersAreTrimmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		loader := &leavesOnly{err: errors.New("down")}
		x, err := NewExecutor(Config{Loader: loader})
		if err != nil {
			t.Fatal(err)
		}
		s := NewState(events.OwnerFromBytes([32]byte{1}))
		entry := &entry{state: s}
		remember := func(upTo uint64) {
			for ; s.Leaves < upTo; s.Leaves++ {
				s.idempotent[numbered(int(s.Leaves))] = Written{LeafIndex: s.Leaves}
				if err := x.trim(entry); err != nil {
					t.Fatalf("%d answers: %v", len(s.idempotent), err)
				}
				synctest.Wait()
			}
		}
		if remember(8 * keptAnswers); loader.asked != 4 {
			t.Errorf("asked %d times", loader.asked)
		}
		loader.leaves, loader.err = 100, nil
		if remember(100 + mostAnswers - 1); len(s.idempotent) != mostAnswers-1 || loader.asked > 20 {
			t.Errorf("asked %d times, %d answers are left", loader.asked, len(s.idempotent))
		}
		s.idempotent[numbered(-1)] = Written{LeafIndex: s.Leaves}
		loader.leaves = s.Leaves + 1
		if err := x.trim(entry); !errors.Is(err, ErrOverloaded) {
			t.Errorf("%d answers: %v", len(s.idempotent), err)
		}
		synctest.Wait()
		if err := x.trim(entry); err != nil || len(s.idempotent) != 0 {
			t.Errorf("once it has them: %d, %v", len(s.idempotent), err)
		}
	})
}
