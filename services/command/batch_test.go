package command_test

import (
	"errors"
	"reflect"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/services/command"
)

func batchWrite(key *events.Hash, contents ...byte) *command.WriteBatch {
	b := &command.WriteBatch{}
	for _, content := range contents {
		b.Memories = append(b.Memories, write(content))
	}
	b.Memories[0].IdempotencyKey = key
	return b
}

func answersOf(b *command.WriteBatch) (all []command.Written) {
	for _, m := range b.Memories {
		all = append(all, m.Written)
	}
	return all
}

// TestWriteBatch: one message, and the same answer for the same key, whether the
// executor remembers it, the read model, or only the log.
func TestWriteBatch(t *testing.T) {
	t.Parallel()
	m := &model{log: openLog(t), batches: map[events.Owner][]batch{}}
	owner, key := logtest.Owner(), events.Hash{7}
	x := newExecutorOn(t, m)
	must(t, x.Execute(t.Context(), owner, write(9)))
	first := batchWrite(&key, 1, 2, 2, 3)
	must(t, x.Execute(t.Context(), owner, first))
	for i, w := range answersOf(first) {
		if w.LeafIndex != uint64(1+i) || first.Replayed {
			t.Errorf("memory %d is %+v", i, w)
		}
	}
	var messages [][]events.Event
	err := m.log.OwnerTail(t.Context(), events.FamilyLedger, owner, 0, func(r eventlog.Record) error {
		message, err := events.DecodeBatch(r.Payload)
		messages = append(messages, message)
		return err
	})
	if err != nil || len(messages) != 2 || len(messages[1]) != 4 {
		t.Fatalf("messages %v, %v", messages, err)
	}

	cold := newExecutorOn(t, m)
	again := func(x *command.Executor) {
		t.Helper()
		repeated := batchWrite(&key, 1, 2, 2, 3)
		if err := x.Execute(t.Context(), owner, repeated); err != nil || !repeated.Replayed {
			t.Fatalf("replayed %v, %v", repeated.Replayed, err)
		}
		if got := answersOf(repeated); !reflect.DeepEqual(got, answersOf(first)) {
			t.Errorf("answered %+v, was %+v", got, answersOf(first))
		}
		for _, other := range [][]byte{{1, 2, 2}, {1, 2, 2, 3, 3}, {1, 2, 3, 2}, {2, 2, 2, 3}} {
			if err := x.Execute(t.Context(), owner, batchWrite(&key, other...)); !errors.Is(err, command.ErrIdempotencyMismatch) {
				t.Errorf("%v: %v", other, err)
			}
		}
	}
	again(x)
	again(cold) // from the tail of the log
	m.advance(t, owner, 10)
	again(newExecutorOn(t, m)) // from the read model
	if m.looks == 0 {
		t.Error("the read model was not asked")
	}

	dead := batchWrite(nil, 1, 2)
	dead.Credential = command.Credential{Kind: command.CredentialKey, ID: "gone"}
	if err := x.Execute(t.Context(), owner, dead); !errors.Is(err, command.ErrCredentialDead) {
		t.Errorf("dead credential: %v", err)
	}
}
