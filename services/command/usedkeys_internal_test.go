package command

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/services/test/heap"
)

func numbered(n int) (h events.Hash) {
	binary.BigEndian.PutUint32(h[:], uint32(n))
	return h
}

func withRoom(n int64) *atomic.Int64 {
	left := new(atomic.Int64)
	left.Store(n)
	return left
}

func TestUsedKeysAreKnown(t *testing.T) {
	t.Parallel()
	left := withRoom(100)
	u := newUsedKeys(left)
	u.add(numbered(1))
	if u.known() {
		t.Error("known before those of the past were filled in")
	}
	u.fill([]events.Hash{numbered(2), numbered(3), numbered(2)})
	for n, want := range []bool{false, true, true, true, false} {
		if got := u.mayHold(numbered(n)); got != want {
			t.Errorf("key %d: %t", n, got)
		}
	}
	if left.Load() != 97 {
		t.Errorf("%d left for others", left.Load())
	}
	u.drop()
	u.add(numbered(5))
	u.fill([]events.Hash{numbered(6)})
	if !u.known() || !u.mayHold(numbered(9)) {
		t.Error("what was dropped says that a key is new")
	}
	if left.Load() != 100 {
		t.Errorf("%d left for others", left.Load())
	}
}

// TestTooManyUsedKeys of one owner, or of all owners: the set is dropped, any key may be
// used, and the room is free for others.
func TestTooManyUsedKeys(t *testing.T) {
	t.Parallel()
	left := withRoom(10)
	one, other := newUsedKeys(left), newUsedKeys(left)
	for n := range 7 {
		one.add(numbered(n))
	}
	for n := range 4 {
		other.add(numbered(n))
	}
	if !other.mayHold(numbered(9)) || one.mayHold(numbered(9)) {
		t.Error("the one who came too late should have gone")
	}
	if left.Load() != 3 {
		t.Errorf("%d left", left.Load())
	}

	left = withRoom(2 * maxUsedKeys)
	u := newUsedKeys(left)
	for n := range maxUsedKeys {
		u.add(numbered(n))
	}
	if u.mayHold(numbered(maxUsedKeys)) {
		t.Error("as many as are remembered are too many")
	}
	u.add(numbered(maxUsedKeys))
	if !u.mayHold(numbered(maxUsedKeys+1)) || left.Load() != 2*maxUsedKeys {
		t.Errorf("one more than are remembered: %d left", left.Load())
	}
}

type emptyLog struct{ eventlog.Log }

func (emptyLog) OwnerTail(context.Context, events.Family, events.Owner, uint64, func(eventlog.Record) error) error {
	return nil
}

// TestEvictedOwnersLeaveTheirRoom, and keys that are folded in count as used.
func TestEvictedOwnersLeaveTheirRoom(t *testing.T) {
	t.Parallel()
	x, err := NewExecutor(Config{CachedOwners: 3, Loader: &leavesOnly{}, Log: emptyLog{}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		owner := events.OwnerFromBytes(numbered(n))
		e := x.entry(owner)
		if err := x.catchUp(t.Context(), owner, &turn{of: e}); err != nil {
			t.Fatal(err)
		}
		e.state.usedKeys.fill([]events.Hash{numbered(1)})
		key := numbered(2)
		e.state.Apply(1, []events.Event{{Data: &events.MemoryWritten{IdempotencyKeyHash: &key}}})
		if !e.keys.mayHold(key) || e.keys.mayHold(numbered(3)) {
			t.Error("a key that was folded in is not known, or another is")
		}
	}
	if used := maxAllUsedKeys - x.keys.Load(); used != 6 {
		t.Errorf("3 owners with 2 keys each take %d", used)
	}
}

type leavesOnly struct {
	Loader
	leaves uint64
	asked  int
}

func (*leavesOnly) Load(_ context.Context, owner events.Owner) (*State, error) {
	return NewState(owner), nil
}

func (l *leavesOnly) Leaves(context.Context, events.Owner) (uint64, error) {
	l.asked++
	return l.leaves, nil
}

// TestAnswersAreTrimmed: the state drops answers that the read model has. It does not ask
// the read model at each write, and stays bounded if the read model has none of them.
func TestAnswersAreTrimmed(t *testing.T) {
	t.Parallel()
	loader := &leavesOnly{}
	x, err := NewExecutor(Config{Loader: loader})
	if err != nil {
		t.Fatal(err)
	}
	s := NewState(events.OwnerFromBytes([32]byte{1}))
	remember := func(upTo uint64) {
		for ; s.Leaves < upTo; s.Leaves++ {
			s.idempotent[numbered(int(s.Leaves))] = Written{LeafIndex: s.Leaves}
			if err := x.trim(t.Context(), &turn{of: &entry{state: s}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	remember(maxIdempotent - 1)
	if loader.asked != 0 {
		t.Errorf("asked %d times before there were many", loader.asked)
	}
	loader.leaves = 100
	remember(maxIdempotent)
	if want := maxIdempotent - 100; len(s.idempotent) != want || loader.asked != 1 {
		t.Errorf("%d answers are left, want %d", len(s.idempotent), want)
	}
	for n := range uint64(maxIdempotent) {
		if _, known := s.idempotent[numbered(int(n))]; known != (n >= 100) {
			t.Fatalf("answer %d: %t", n, known)
		}
	}
	remember(100 + mostAnswers - 1) // the read model makes no progress
	if loader.asked > 12 {
		t.Errorf("asked %d times", loader.asked)
	}
	s.idempotent[numbered(-1)] = Written{LeafIndex: s.Leaves}
	for range 2 {
		if err := x.trim(t.Context(), &turn{of: &entry{state: s}}); !errors.Is(err, ErrOverloaded) {
			t.Errorf("%d answers that nobody takes: %v", len(s.idempotent), err)
		}
	}
	loader.leaves = s.Leaves + 1
	if err := x.trim(t.Context(), &turn{of: &entry{state: s}}); err != nil || len(s.idempotent) != 0 {
		t.Errorf("once it has them: %d, %v", len(s.idempotent), err)
	}
}

// TestAnswersOfManyOwnersTakeLittle: many owners may each have written with keys, and a
// state that is trimmed gives its memory back.
func TestAnswersOfManyOwnersTakeLittle(t *testing.T) { // not parallel: it measures the heap
	loader := &leavesOnly{}
	x, err := NewExecutor(Config{Loader: loader})
	if err != nil {
		t.Fatal(err)
	}
	const writers, mostBytes = 500, 4000
	states := make([]*State, writers)
	write := func(times int) {
		for i, s := range states {
			if s == nil {
				s = NewState(events.OwnerFromBytes([32]byte{1}))
				states[i] = s
			}
			for range times {
				if err := x.trim(t.Context(), &turn{of: &entry{state: s}}); err != nil {
					t.Fatal(err)
				}
				s.idempotent[numbered(int(s.Leaves))] = Written{LeafIndex: s.Leaves}
				s.Leaves++
			}
		}
	}
	for n := range uint64(allIdempotent / leastIdempotent) {
		x.entry(events.OwnerFromBytes([32]byte(binary.BigEndian.AppendUint64(make([]byte, 24), n))))
	}
	before := heap.Live()
	write(1000) // while the read model makes no progress
	loader.leaves = math.MaxUint64
	write(maxIdempotent - 1)
	if each := (heap.Live() - before) / writers; each > mostBytes {
		t.Errorf("the answers of each of many owners take %d bytes", each)
	}
	runtime.KeepAlive(x)
	runtime.KeepAlive(states)
}

// TestAReadModelThatHangsHoldsNoWriteUp: it is asked rarely, and no write waits long.
func TestAReadModelThatHangsHoldsNoWriteUp(t *testing.T) {
	t.Parallel()
	loader := &hanging{}
	x, err := NewExecutor(Config{Loader: loader})
	if err != nil {
		t.Fatal(err)
	}
	s := NewState(events.OwnerFromBytes([32]byte{1}))
	for n := range 10 * maxIdempotent {
		s.idempotent[numbered(n)] = Written{LeafIndex: uint64(n)}
		if err := x.trim(t.Context(), &turn{of: &entry{state: s}}); err != nil {
			t.Fatal(err)
		}
	}
	if loader.asked != 4 || len(s.idempotent) != 10*maxIdempotent {
		t.Errorf("asked %d times, %d answers are left", loader.asked, len(s.idempotent))
	}
}

// hanging is a read model that answers only when the request is canceled.
type hanging struct {
	Loader
	asked int
}

func (h *hanging) Leaves(ctx context.Context, _ events.Owner) (uint64, error) {
	h.asked++
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestAnswersToOthersAreBounded: a state is not trimmed if this process gets no writes with
// a key. It is dropped once it holds too many answers.
func TestAnswersToOthersAreBounded(t *testing.T) {
	t.Parallel()
	x, err := NewExecutor(Config{CachedOwners: 3, Loader: &leavesOnly{}, Log: emptyLog{}})
	if err != nil {
		t.Fatal(err)
	}
	owner := events.OwnerFromBytes([32]byte{1})
	e := x.entry(owner)
	catchUp := func() {
		t.Helper()
		if err := x.catchUp(t.Context(), owner, &turn{of: e}); err != nil {
			t.Fatal(err)
		}
	}
	catchUp()
	e.keys.fill(nil)
	for n := range mostAnswers {
		e.state.idempotent[numbered(n)] = Written{}
	}
	catchUp()
	if len(e.state.idempotent) != mostAnswers || e.keys.mayHold(numbered(1)) {
		t.Error("given up too early")
	}
	e.state.idempotent[numbered(-1)] = Written{}
	catchUp()
	if len(e.state.idempotent) != 0 || e.keys.known() {
		t.Errorf("%d answers are kept", len(e.state.idempotent))
	}
}
