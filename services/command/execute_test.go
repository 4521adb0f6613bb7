package command_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/canonical"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/command"
)

// emptyModel is a read model that has not seen anything: everything comes from
// the log's tail.
type emptyModel struct{}

func (emptyModel) Load(_ context.Context, owner events.Owner) (*command.State, error) {
	return command.NewState(owner), nil
}

func (emptyModel) FindWritten(context.Context, events.Owner, events.Hash) (command.Written, bool, error) {
	return command.Written{}, false, nil
}

var ids atomic.Int64

func newID() string { return fmt.Sprintf("id-%06d", ids.Add(1)) }

func openLog(t *testing.T) *eventlog.JetStream {
	t.Helper()
	nc, err := nats.Connect(natstest.Start(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	log, err := eventlog.Create(t.Context(), nc, eventlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func newExecutor(t *testing.T, log eventlog.Log) *command.Executor {
	t.Helper()
	x, err := command.NewExecutor(command.Config{Log: log, Loader: emptyModel{}, Source: "/test", NewID: newID, CachedOwners: 2})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func write(content byte) *command.WriteMemory {
	return &command.WriteMemory{MemoryID: newID(), LeafHash: events.Hash{content}, Metadata: canonical.Empty, Sealed: []byte{content}}
}

// leavesOf replays an owner's log and checks that leaf indexes and owner
// versions have no gaps and no doubles.
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
	if err != nil {
		t.Fatal(err)
	}
	return leaves
}

// TestExecutorsCompete runs several processes' worth of executors, with caches
// too small for their owners, on the same owners.
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

// faulty is a log whose appends fail in two ways: before they are stored, and
// after.
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

// TestAppendFaults fails each append of a history in each way; the client
// repeats with its Idempotency-Key, and everything is there exactly once.
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

// TestRefusalIsNeverSaidOnAnOldState mints a grant through one executor while
// another, which has the owner's older state, is asked to spend it.
func TestRefusalIsNeverSaidOnAnOldState(t *testing.T) {
	t.Parallel()
	log := openLog(t)
	a, b, owner := newExecutor(t, log), newExecutor(t, log), logtest.Owner()
	if err := b.Execute(t.Context(), owner, write(1)); err != nil {
		t.Fatal(err)
	}
	mint := &command.MintGrant{GrantID: newID(), Kind: events.GrantCase, ExpiresAt: events.At(time.Now().Add(time.Hour)), MaxUses: 1}
	if err := a.Execute(t.Context(), owner, mint); err != nil {
		t.Fatal(err)
	}
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

// TestWaitingHasADeadlineAndABound: behind a log that hangs, commands give up
// in time, and too many of them are turned away at once.
func TestWaitingHasADeadlineAndABound(t *testing.T) {
	t.Parallel()
	log := &stuck{Log: openLog(t), begun: make(chan struct{}, 1), release: make(chan struct{})}
	x, owner := newExecutor(t, log), logtest.Owner()
	first := make(chan error, 1)
	go func() { first <- x.Execute(t.Context(), owner, write(1)) }()
	<-log.begun
	impatient, cancel := context.WithCancel(t.Context())
	const waiting = 1023
	results := make(chan error, waiting+10)
	for range waiting + 10 {
		go func() { results <- x.Execute(impatient, owner, write(2)) }()
	}
	for range 10 { // these don't even wait
		if err := <-results; !errors.Is(err, command.ErrOverloaded) {
			t.Error(err)
		}
	}
	cancel()
	for range waiting {
		if err := <-results; !errors.Is(err, command.ErrOverloaded) {
			t.Error(err)
		}
	}
	close(log.release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if leaves := leavesOf(t, log, owner); len(leaves) != 1 {
		t.Errorf("%d leaves", len(leaves))
	}
}

// TestOwnersShareTheMachine: of the commands of many owners a few run, a few
// wait, and the rest is turned away at once; what ran or waited is stored.
func TestOwnersShareTheMachine(t *testing.T) {
	t.Parallel()
	const running, waiting, refused = 3, 5, 7
	log := &stuck{Log: openLog(t), begun: make(chan struct{}, running+waiting), release: make(chan struct{})}
	x, err := command.NewExecutor(command.Config{
		Log: log, Loader: emptyModel{}, Source: "/core", NewID: newID, MaxRunning: running, MaxWaiting: waiting,
	})
	if err != nil {
		t.Fatal(err)
	}
	owners := make([]events.Owner, running+waiting+refused)
	results := make(chan error, len(owners))
	for i := range owners {
		owners[i] = events.OwnerFromBytes([32]byte{1, byte(i)})
		go func() { results <- x.Execute(t.Context(), owners[i], write(1)) }()
	}
	for range running {
		<-log.begun
	}
	for range refused {
		if err := <-results; !errors.Is(err, command.ErrOverloaded) {
			t.Error(err)
		}
	}
	if len(log.begun) != 0 {
		t.Errorf("%d commands more were begun than may run", len(log.begun))
	}
	close(log.release)
	for range running + waiting {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	leaves := 0
	for _, owner := range owners {
		leaves += len(leavesOf(t, log, owner))
	}
	if leaves != running+waiting {
		t.Errorf("%d leaves", leaves)
	}
}
