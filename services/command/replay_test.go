package command_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/command"
)

// model is a read model that is behind the log by as much as the test wants.
type model struct {
	log eventlog.Log

	mu      sync.Mutex
	batches map[events.Owner][]batch // read so far
}

type batch struct {
	seq    uint64
	events []events.Event
}

// advance lets the model read up to n more messages of an owner.
func (m *model) advance(t *testing.T, owner events.Owner, n int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	seen, last := m.batches[owner], uint64(0)
	if len(seen) > 0 {
		last = seen[len(seen)-1].seq
	}
	enough := errors.New("enough")
	err := m.log.OwnerTail(t.Context(), events.FamilyLedger, owner, last, func(r eventlog.Record) error {
		if n--; n < 0 {
			return enough
		}
		decoded, err := events.DecodeBatch(r.Payload)
		seen = append(seen, batch{r.Seq, decoded})
		return err
	})
	if err != nil && !errors.Is(err, enough) {
		t.Error(err)
	}
	m.batches[owner] = seen
}

func (m *model) Load(_ context.Context, owner events.Owner) (*command.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	folded, state := command.NewState(owner), command.NewState(owner)
	for _, b := range m.batches[owner] {
		folded.Apply(b.seq, b.events)
	}
	// Without the answers to writes with a key, which are looked up.
	state.Seq, state.Version, state.Leaves = folded.Seq, folded.Version, folded.Leaves
	return state, nil
}

// keyed calls yield with the memories that were written with a key.
func (m *model) keyed(owner events.Owner, yield func(uint64, events.Event, *events.MemoryWritten)) {
	for _, b := range m.batches[owner] {
		for _, e := range b.events {
			if w, ok := e.Data.(*events.MemoryWritten); ok && w.IdempotencyKeyHash != nil {
				yield(b.seq, e, w)
			}
		}
	}
}

func (m *model) FindWritten(ctx context.Context, owner events.Owner, key events.Hash) (written command.Written, found bool, seq uint64, err error) {
	state, err := m.Load(ctx, owner)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keyed(owner, func(seq uint64, e events.Event, w *events.MemoryWritten) {
		if *w.IdempotencyKeyHash == key {
			written = command.Written{MemoryID: w.MemoryID, LeafIndex: w.LeafIndex, LeafHash: w.LeafHash, CreatedAt: e.Time, Seq: seq}
			found = true
		}
	})
	return written, found, state.Seq, err
}

func (m *model) WithHash(_ context.Context, owner events.Owner, hashes []events.Hash) (leaves []command.Superseded, seq uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.batches[owner] {
		for _, e := range b.events {
			if data, ok := e.Data.(*events.MemoryWritten); ok && slices.Contains(hashes, data.LeafHash) {
				leaves = append(leaves, command.Superseded{Leaf: data.LeafIndex, Hash: data.LeafHash})
			}
		}
		seq = b.seq
	}
	return leaves, seq, nil
}

func (m *model) UsedKeys(ctx context.Context, owner events.Owner, limit int) (keys []events.Hash, seq uint64, err error) {
	state, err := m.Load(ctx, owner)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keyed(owner, func(_ uint64, _ events.Event, w *events.MemoryWritten) {
		if len(keys) <= limit {
			keys = append(keys, *w.IdempotencyKeyHash)
		}
	})
	return keys, state.Seq, err
}

// TestOneWriteForAKey: a key yields one memory, and every request with it the same answer.
// It does not matter how far the read models are behind, which replica is asked, and what
// it has forgotten.
func TestOneWriteForAKey(t *testing.T) {
	t.Parallel()
	const workers, each, keys = 6, 60, 25
	m := &model{log: openLog(t), batches: map[events.Owner][]batch{}}
	owners := []events.Owner{logtest.Owner(), logtest.Owner(), logtest.Owner()}
	executors := []*command.Executor{newExecutorOn(t, m.log, m), newExecutorOn(t, m.log, m)}
	type asked struct {
		owner events.Owner
		key   byte
	}
	var (
		mu      sync.Mutex
		answers = map[asked]command.Written{}
		group   sync.WaitGroup
	)
	for worker := range workers {
		group.Go(func() {
			chance := rand.New(rand.NewPCG(1, uint64(worker)))
			for range each {
				if chance.IntN(3) == 0 {
					m.advance(t, owners[chance.IntN(len(owners))], chance.IntN(20))
				}
				a := asked{owners[chance.IntN(len(owners))], byte(chance.IntN(keys))}
				key := events.Hash{a.key}
				w := write(a.key)
				if chance.IntN(4) > 0 {
					w.IdempotencyKey = &key
				}
				if err := executors[chance.IntN(2)].Execute(t.Context(), a.owner, w); err != nil {
					t.Error(err)
					return
				}
				if w.IdempotencyKey == nil {
					continue
				}
				mu.Lock()
				first, known := answers[a]
				if known && first != w.Written {
					t.Errorf("key %d is answered %+v, was %+v", a.key, w.Written, first)
				}
				answers[a] = w.Written
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for _, o := range owners {
		used := map[events.Hash]bool{}
		for _, leaf := range leavesOf(t, m.log, o) {
			if key := leaf.IdempotencyKeyHash; key != nil {
				if used[*key] {
					t.Errorf("two memories of %s under key %d", o, key[0])
				}
				used[*key] = true
			}
		}
	}
}

// TestAReadModelThatIsMadeAnew: a read model that is rebuilt does not know the earlier
// keys yet, and the memories with those keys are not written a second time.
func TestAReadModelThatIsMadeAnew(t *testing.T) {
	t.Parallel()
	m := &model{log: openLog(t), batches: map[events.Owner][]batch{}}
	owner := logtest.Owner()
	x := newExecutorOn(t, m.log, m)
	again := func(x *command.Executor, n int) (*command.WriteMemory, error) {
		w, key := write(byte(n)), events.Hash{byte(n)}
		w.IdempotencyKey = &key
		return w, x.Execute(t.Context(), owner, w)
	}
	for n := range 200 {
		must(t, testkit.ErrorOf(again(x, n)))
		m.advance(t, owner, 1)
	}
	young := newExecutorOn(t, m.log, m) // loads them all from the model
	if w, err := again(young, 40); err != nil || !w.Replayed {
		t.Fatalf("replayed %t, %v", w.Replayed, err)
	}
	unasked := newExecutorOn(t, m.log, m) // has looked up no key
	must(t, unasked.Execute(t.Context(), owner, write(0)))
	m.mu.Lock()
	m.batches = map[events.Owner][]batch{}
	m.mu.Unlock()
	m.advance(t, owner, 20)
	for _, x := range []*command.Executor{x, young, unasked} {
		for _, n := range []int{5, 30, 199} {
			if w, err := again(x, n); err != nil || !w.Replayed || w.Written.LeafIndex != uint64(n) {
				t.Errorf("key %d: replayed %t, %+v, %v", n, w.Replayed, w.Written, err)
			}
		}
	}
	if w, err := again(x, 201); err != nil || w.Replayed {
		t.Errorf("a new key: replayed %t, %v", w.Replayed, err)
	}
}

// manyKeys is a read model of an owner who has used more keys than are held in memory.
type manyKeys struct {
	*model
	asked int
}

func (m *manyKeys) UsedKeys(_ context.Context, _ events.Owner, limit int) ([]events.Hash, uint64, error) {
	m.asked++
	return make([]events.Hash, limit+1), 0, nil
}

// TestManyKeysAreReadOnce: the keys of an owner who has used very many are not read again for
// each write, and still a repeated write is found.
func TestManyKeysAreReadOnce(t *testing.T) {
	t.Parallel()
	m := &manyKeys{model: &model{log: openLog(t), batches: map[events.Owner][]batch{}}}
	owner := logtest.Owner()
	must(t, newExecutorOn(t, m.log, m.model).Execute(t.Context(), owner, write(0)))
	m.advance(t, owner, 1)
	x := newExecutorOn(t, m.log, m)
	for i, key := range []events.Hash{{1}, {2}, {1}, {2}} {
		w := write(key[0])
		w.IdempotencyKey = &key
		if err := x.Execute(t.Context(), owner, w); err != nil || w.Replayed != (i >= 2) || w.Written.LeafIndex != uint64(key[0]) {
			t.Errorf("key %d: replayed %t, %+v, %v", key[0], w.Replayed, w.Written, err)
		}
	}
	if m.asked != 1 {
		t.Errorf("all keys were read %d times", m.asked)
	}
}
