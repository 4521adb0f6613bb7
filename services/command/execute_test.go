package command_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/command"
)

var ids atomic.Int64

func newID() string { return fmt.Sprintf("id-%06d", ids.Add(1)) }

func openLog(t *testing.T) *eventlog.JetStream {
	t.Helper()
	nc, _ := natstest.Connect(t, natstest.Start(t).URL())
	natstest.Log(t, nc)
	log, err := eventlog.Open(t.Context(), nc)
	must(t, err)
	return log
}

func newExecutor(t *testing.T, log eventlog.Log) *command.Executor {
	t.Helper()
	return newExecutorOn(t, log, command.NoReadModel{})
}

func newExecutorOn(t *testing.T, log eventlog.Log, loader command.Loader) *command.Executor {
	t.Helper()
	return command.NewExecutor(command.Config{Log: log, Loader: loader, Source: "/test", NewID: newID, CachedOwners: 2})
}

func write(content byte) *command.WriteMemory {
	seal := func(uint64) ([]byte, int) { return []byte{content}, events.SealedByLeaf }
	return &command.WriteMemory{MemoryID: newID(), LeafHash: events.Hash{content}, Metadata: canonical.Empty, Seal: seal}
}

// leavesOf replays an owner's log and checks that leaf indexes and owner versions have no
// gaps and no duplicates.
func leavesOf(t *testing.T, log eventlog.Log, owner events.Owner) []*events.MemoryWritten {
	t.Helper()
	var leaves []*events.MemoryWritten
	version := 0
	err := log.OwnerTail(t.Context(), events.FamilyLedger, owner, 0, func(r eventlog.Record) error {
		batch, err := events.DecodeBatch(r.Payload)
		if err != nil {
			return err
		}
		version++
		if batch[0].OwnerVersion != version {
			t.Errorf("sequence %d has version %d, want %d", r.Seq, batch[0].OwnerVersion, version)
		}
		for _, e := range batch {
			if m, ok := e.Data.(*events.MemoryWritten); ok {
				if m.LeafIndex != uint64(len(leaves)) {
					t.Errorf("sequence %d has leaf %d, want %d", r.Seq, m.LeafIndex, len(leaves))
				}
				leaves = append(leaves, m)
			}
		}
		return nil
	})
	must(t, err)
	return leaves
}

// TestExecutorsCompete runs several executors, as of several processes, on the same owners,
// with caches too small for them.
func TestExecutorsCompete(t *testing.T) {
	t.Parallel()
	log := openLog(t)
	owners := []events.Owner{logtest.Owner(), logtest.Owner(), logtest.Owner(), logtest.Owner()}
	executors := []*command.Executor{newExecutor(t, log), newExecutor(t, log), newExecutor(t, log)}
	const each = 40
	var group sync.WaitGroup
	for i, x := range executors {
		for j := range 4 {
			group.Go(func() {
				for n := range each {
					if err := x.Execute(t.Context(), owners[(n+j)%len(owners)], write(byte(i))); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
	total := 0
	for _, o := range owners {
		total += len(leavesOf(t, log, o))
	}
	if want := len(executors) * 4 * each; total != want {
		t.Errorf("%d leaves, want %d", total, want)
	}
}

// tails counts how often the owner's tail is read.
type tails struct {
	eventlog.Log
	read atomic.Int64
}

func (c *tails) OwnerTail(ctx context.Context, f events.Family, o events.Owner, after uint64, yield func(eventlog.Record) error) error {
	c.read.Add(1)
	return c.Log.OwnerTail(ctx, f, o, after, yield)
}

// An executor that lost a race knows from the refusal what the others wrote. Of much that they
// wrote it reads the tail.
func TestTheOvertakenKnowByWhat(t *testing.T) {
	t.Parallel()
	log := &tails{Log: openLog(t)}
	owner, fast, slow := logtest.Owner(), newExecutor(t, log.Log), newExecutor(t, log)
	leaves := 0
	for _, c := range []struct {
		others int
		reads  int64
	}{{1, 1}, {3, 0}, {32, 0}, {33, 1}} { // the first loads the owner
		for i := range c.others {
			must(t, fast.Execute(t.Context(), owner, write(byte(i))))
		}
		log.read.Store(0)
		must(t, slow.Execute(t.Context(), owner, write(0)))
		if n := log.read.Load(); n != c.reads {
			t.Errorf("after %d messages of others: %d reads", c.others, n)
		}
		if leaves += c.others + 1; len(leavesOf(t, log.Log, owner)) != leaves {
			t.Errorf("after %d messages of others there are not %d leaves", c.others, leaves)
		}
	}
}

// faulty is a log whose appends fail in a chosen way: not stored, lost without an answer,
// or stored without an answer.
type faulty struct {
	eventlog.Log
	mu    sync.Mutex
	fault map[int]string // by the number of the append
	count int
}

func (f *faulty) Append(ctx context.Context, a eventlog.Append) (uint64, error) {
	f.mu.Lock()
	f.count++
	fault := f.fault[f.count]
	f.mu.Unlock()
	switch fault {
	case "not stored":
		return 0, fmt.Errorf("injected: %w", eventlog.ErrUnavailable)
	case "lost":
		return 0, fmt.Errorf("injected: %w", eventlog.ErrUncertain)
	case "stored, answer lost":
		if _, err := f.Log.Append(ctx, a); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("injected: %w", eventlog.ErrUncertain)
	}
	return f.Log.Append(ctx, a)
}

// TestAppendFaults fails each append of a history in each way. The client retries with its
// Idempotency-Key, and every memory is stored exactly once.
func TestAppendFaults(t *testing.T) {
	t.Parallel()
	const writes = 6
	for _, kind := range []string{"not stored", "lost", "stored, answer lost"} {
		for at := 1; at <= writes; at++ {
			t.Run(fmt.Sprintf("%s at %d", kind, at), func(t *testing.T) {
				t.Parallel()
				log := &faulty{Log: openLog(t), fault: map[int]string{at: kind}}
				x, owner := newExecutor(t, log), logtest.Owner()
				failed := 0
				for n := range writes {
					key := events.Hash{byte(n)}
					for {
						w := write(byte(n))
						w.IdempotencyKey = &key
						err := x.Execute(t.Context(), owner, w)
						if err == nil {
							if w.Written.LeafIndex != uint64(n) {
								t.Errorf("write %d got leaf %d", n, w.Written.LeafIndex)
							}
							break
						}
						if !errors.Is(err, eventlog.ErrUnavailable) && !errors.Is(err, eventlog.ErrUncertain) {
							t.Fatal(err)
						}
						failed++
					}
				}
				if failed != 1 {
					t.Errorf("%d failures reached the client", failed)
				}
				if leaves := leavesOf(t, log, owner); len(leaves) != writes {
					t.Errorf("%d leaves, want %d", len(leaves), writes)
				}
			})
		}
	}
}

// TestRefusalIsNeverSaidOnAnOldState mints a grant through one executor, and spends it
// through another one that has an older state.
func TestRefusalIsNeverSaidOnAnOldState(t *testing.T) {
	t.Parallel()
	log := openLog(t)
	a, b, owner := newExecutor(t, log), newExecutor(t, log), logtest.Owner()
	must(t, b.Execute(t.Context(), owner, write(1)))
	mint := &command.MintGrant{GrantID: newID(), Kind: events.GrantCase, ExpiresAt: events.At(time.Now().Add(time.Hour)), MaxUses: 1}
	must(t, a.Execute(t.Context(), owner, mint))
	if err := b.Execute(t.Context(), owner, &command.ConsumeCase{GrantID: mint.GrantID}); err != nil {
		t.Errorf("b: %v", err)
	}
	if err := a.Execute(t.Context(), owner, &command.ConsumeCase{GrantID: mint.GrantID}); !errors.Is(err, command.ErrGrantDead) {
		t.Errorf("a: %v", err)
	}
}

// stuck is a log whose appends wait until they are released.
type stuck struct {
	eventlog.Log
	begun   chan struct{}
	release chan struct{}
}

func (s *stuck) Append(ctx context.Context, a eventlog.Append) (uint64, error) {
	s.begun <- struct{}{}
	select {
	case <-s.release:
		return s.Log.Append(ctx, a)
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", eventlog.ErrUncertain, ctx.Err())
	}
}

// TestWaitingHasADeadlineAndABound: if the log hangs, commands time out, and commands above
// the bound are refused at once. Afterwards there is as much room as before.
func TestWaitingHasADeadlineAndABound(t *testing.T) {
	t.Parallel()
	log := &stuck{Log: openLog(t), begun: make(chan struct{}, 1), release: make(chan struct{})}
	x, owner := newExecutor(t, log), logtest.Owner()
	const rounds, waiting, refused = 2, 255, 10
	for range rounds {
		first := make(chan error, 1)
		go func() { first <- x.Execute(t.Context(), owner, write(1)) }()
		<-log.begun
		impatient, cancel := context.WithCancel(t.Context())
		results := make(chan error, waiting+refused)
		for range waiting + refused {
			go func() { results <- x.Execute(impatient, owner, write(2)) }()
		}
		for range refused { // refused without waiting
			if err := <-results; !errors.Is(err, command.ErrOverloaded) {
				t.Error(err)
			}
		}
		if len(results) > 0 {
			t.Errorf("%d more than that were turned away", len(results))
		}
		cancel()
		for range waiting {
			if err := <-results; !errors.Is(err, command.ErrOverloaded) || !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		log.release <- struct{}{}
		if err := <-first; err != nil {
			t.Error(err)
		}
	}
	if leaves := leavesOf(t, log, owner); len(leaves) != rounds {
		t.Errorf("%d leaves", len(leaves))
	}
	for range 1 + waiting + 1 { // one after the other: as many as there may be at once, and one more
		must(t, x.Execute(t.Context(), owner, &command.RevokeGrant{GrantID: "nobody's"}))
	}
}

// TestAPanicHoldsUpNoOther: the API survives a panic, so the owner's next command has its turn.
func TestAPanicHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	x, broken := newExecutor(t, openLog(t)), write('x')
	broken.Seal = func(uint64) ([]byte, int) { panic("a fault") }
	func() {
		defer func() { _ = recover() }()
		_ = x.Execute(t.Context(), "alice", broken)
	}()
	must(t, x.Execute(t.Context(), "alice", write('y')))
}
