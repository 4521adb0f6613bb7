package command

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/tracing"
	"github.com/memory-ledger/ledger/services/cachestats"
)

// ErrOverloaded: too many commands, of one owner or of all, are waiting. Nothing
// was stored. Answer 503.
var ErrOverloaded = errors.New("too many commands are waiting")

// errAsking: so many commands wait for the read model that no more may.
var errAsking = fmt.Errorf("%w for the read model", ErrOverloaded)

// Loader reads cold owners from the read model.
type Loader interface {
	// Load returns the owner's state as of some position of the projection;
	// what came after is read from the log. It may be arbitrarily old.
	Load(ctx context.Context, owner events.Owner) (*State, error)
	// FindWritten looks up the answer to an earlier write by its
	// Idempotency-Key, among the owner's first leaves, as many as it says.
	FindWritten(ctx context.Context, owner events.Owner, key events.Hash) (w Written, found bool, leaves uint64, err error)
	// UsedKeys returns the Idempotency-Keys that FindWritten would find, in any
	// order, or, where they are more than limit, any limit+1 of them.
	UsedKeys(ctx context.Context, owner events.Owner, limit int) ([]events.Hash, error)
	// Leaves returns how many leaves of the owner FindWritten looks through.
	Leaves(ctx context.Context, owner events.Owner) (uint64, error)
}

// Config of an Executor.
type Config struct {
	Log    eventlog.Log
	Loader Loader
	Source string           // CloudEvents source: "/core" or "/extension"
	Now    func() time.Time // nil means time.Now
	NewID  func() string    // UUIDv7
	// CachedOwners bounds the states kept in memory. 0 means 100,000.
	CachedOwners int
	// Timeout bounds a command that came without an earlier deadline.
	// 0 means 5 s.
	Timeout time.Duration
	// MaxRunning bounds the commands, of all owners, that are decided and
	// appended at the same time; 0 means 64. MaxWaiting bounds those whose
	// owner's turn it is and that wait for that.
	MaxRunning, MaxWaiting int
}

const (
	defaultCachedOwners = 100_000
	defaultTimeout      = 5 * time.Second
	// maxQueued bounds the commands of one owner that wait in this process.
	maxQueued = 1024
	// defaultMaxRunning is enough for the log to gather syncs of, and few
	// enough that what is not a command gets at the processor beside them.
	defaultMaxRunning = 64
	// maxIdempotent is how many answers a state remembers before the read model
	// is asked which it has by now, some 25 kB. Where it does not have them, because
	// the projector is away, or does not answer within trimPatience, they may become
	// mostAnswers, 13 MB.
	maxIdempotent = 128
	mostAnswers   = 1 << 16
	trimPatience  = 250 * time.Millisecond
)

// Executor carries out commands.
type Executor struct {
	cfg     Config
	owners  *lru.Cache[events.Owner, *entry]
	running chan struct{} // one slot for every command that runs
	waiting chan struct{} // one slot for every command that waits to run
	asking  chan struct{} // one slot for every command that waits for the read model
	keys    *atomic.Int64 // how many more used Idempotency-Keys may be remembered
	// Hits counts the commands whose owner's state was in memory.
	Hits *cachestats.Counter
}

// entry holds one owner's state and lets one command at a time at it, until its
// message is in the log; commands that only wait for theirs to be on stable
// storage share that wait. An entry that is evicted while it is in use is merely
// forgotten: a second one for the same owner would lose to it, or win, at the log.
type entry struct {
	turn  chan struct{} // holds one token; the command that took it owns state
	queue chan struct{} // one slot for every command that has not ended
	state *State        // nil: load it
	fresh bool          // false: the log may hold events that state has not seen
	// unproven: state came from the read model, and was not compared with the log yet.
	unproven bool
	keys     *usedKeys
}

// NewExecutor returns an Executor.
func NewExecutor(cfg Config) (*Executor, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.CachedOwners <= 0 {
		cfg.CachedOwners = defaultCachedOwners
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.MaxRunning <= 0 {
		cfg.MaxRunning = defaultMaxRunning
	}
	owners, err := lru.NewWithEvict(cfg.CachedOwners, func(_ events.Owner, e *entry) { e.keys.drop() })
	if err != nil {
		return nil, fmt.Errorf("owner cache: %w", err)
	}
	keys := new(atomic.Int64)
	keys.Store(maxAllUsedKeys)
	return &Executor{
		cfg: cfg, owners: owners, keys: keys, Hits: &cachestats.Counter{},
		running: make(chan struct{}, cfg.MaxRunning), waiting: make(chan struct{}, max(0, cfg.MaxWaiting)),
		asking: make(chan struct{}, cfg.MaxRunning+max(0, cfg.MaxWaiting)),
	}, nil
}

// As returns an Executor that names another source in its events and shares
// everything else.
func (x *Executor) As(source string) *Executor {
	as := *x
	as.cfg.Source = source
	return &as
}

// Cached returns how many owners' states are in memory.
func (x *Executor) Cached() int { return x.owners.Len() }

// Execute carries out a command of an owner. When it returns without error,
// the events are on stable storage and the command's answer fields are set.
//
// Errors: the refusals of this package, ErrOverloaded, fence.ErrBehind and
// eventlog.ErrUnavailable (nothing was stored), eventlog.ErrUncertain (it may have
// been).
func (x *Executor) Execute(ctx context.Context, owner events.Owner, c Command) error {
	ctx, cancel := context.WithTimeout(ctx, x.cfg.Timeout)
	defer cancel()
	ctx, span := tracing.Start(ctx, "decide")
	defer span.End()
	e := x.entry(owner)
	if err := e.enter(ctx); err != nil {
		return err
	}
	defer e.leave()
	t := turn{of: e}
	defer t.pass()
	if err := x.admit(ctx, &t); err != nil {
		return err
	}
	defer x.release(&t)
	return x.run(ctx, owner, &t, c)
}

// admit waits until few enough commands are running.
func (x *Executor) admit(ctx context.Context, t *turn) error {
	select {
	case x.running <- struct{}{}:
		t.running = true
		return nil
	default:
	}
	select {
	case x.waiting <- struct{}{}:
		defer func() { <-x.waiting }()
	default:
		return ErrOverloaded
	}
	select {
	case x.running <- struct{}{}:
		t.running = true
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrOverloaded, ctx.Err())
	}
}

// release gives up the slot of a command that runs.
func (x *Executor) release(t *turn) {
	if t.running {
		t.running = false
		<-x.running
	}
}

// ask asks the read model. A command gives up its slot meanwhile: a database that
// hangs must not hold back those who need nothing of it.
func (x *Executor) ask(ctx context.Context, t *turn, question func() error) error {
	select {
	case x.asking <- struct{}{}:
	default:
		return errAsking
	}
	ran := t.running
	x.release(t)
	err := question()
	<-x.asking
	if err != nil || !ran {
		return err
	}
	return x.admit(ctx, t)
}

// Forget drops what is kept of owners, which was loaded from read models that have
// been exchanged since: they may have been wrong. Commands that have their turn, or
// wait for it, end with what was loaded for them.
func (x *Executor) Forget() { x.owners.Purge() }

// Standing is what the log says of an owner.
type Standing struct {
	UserID     string
	Registered bool // the owner signed in once
	Erasures   int  // how often the owner had all erased
	// KeyMissing says that the data key may be missing: no leaf was sealed with it.
	KeyMissing bool
}

// Standing returns what the log says of an owner. The event that says so may not be on
// stable storage yet.
func (x *Executor) Standing(ctx context.Context, owner events.Owner) (Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, x.cfg.Timeout)
	defer cancel()
	e := x.entry(owner)
	if err := e.enter(ctx); err != nil {
		return Standing{}, err
	}
	defer e.leave()
	t := turn{of: e}
	defer t.pass()
	if err := x.catchUp(ctx, owner, &t); err != nil {
		return Standing{}, err
	}
	s := e.state
	return Standing{s.UserID, s.Registered, s.Erased.Times, !s.Registered || s.Erased.Times > 0 && s.Erased.Leaves == s.Leaves}, nil
}

func (x *Executor) entry(owner events.Owner) *entry {
	if e, ok := x.owners.Get(owner); x.Hits.Count(ok) {
		return e
	}
	e := &entry{turn: make(chan struct{}, 1), queue: make(chan struct{}, maxQueued), keys: newUsedKeys(x.keys)}
	e.turn <- struct{}{}
	if earlier, ok, _ := x.owners.PeekOrAdd(owner, e); ok {
		return earlier
	}
	return e
}

// enter waits for the owner's turn. A command that got it must pass it on, and leave.
func (e *entry) enter(ctx context.Context) error {
	select {
	case e.queue <- struct{}{}:
	default:
		return ErrOverloaded
	}
	select {
	case <-e.turn:
		return nil
	case <-ctx.Done():
		<-e.queue
		return fmt.Errorf("%w: %w", ErrOverloaded, ctx.Err())
	}
}

func (e *entry) leave() { <-e.queue }

// turn is a command's turn at its owner's state.
type turn struct {
	of      *entry
	passed  bool
	running bool // it has a slot of those that run
}

// pass lets the owner's next command at the state, which is no longer the
// caller's.
func (t *turn) pass() {
	if !t.passed {
		t.passed = true
		t.of.turn <- struct{}{}
	}
}

// run decides and appends until the command is stored or refused for good.
func (x *Executor) run(ctx context.Context, owner events.Owner, t *turn, c Command) error {
	e := t.of
	if e.state == nil || !e.fresh {
		if err := x.catchUp(ctx, owner, t); err != nil {
			return err
		}
	}
	commandID := x.cfg.NewID()
	caughtUp := false
	for {
		if err := x.recall(ctx, t, c); err != nil {
			return err
		}
		now := x.cfg.Now()
		decision, refusal := c.decide(e.state, now)
		if refusal != nil || len(decision.Events) == 0 {
			if caughtUp {
				t.pass()
				return x.standing(ctx, refusal)
			}
			// The state may be old: what is refused may have become right.
			if err := x.catchUp(ctx, owner, t); err != nil {
				return err
			}
			caughtUp = true
			continue
		}
		stored, err := x.append(ctx, t, decision, commandID, now)
		if err != nil || stored {
			return err
		}
		if err := x.catchUp(ctx, owner, t); err != nil {
			return err
		}
		caughtUp = true
	}
}

// standing answers from events that others appended. Those must be on stable storage
// before a client is told what follows from them.
func (x *Executor) standing(ctx context.Context, refusal error) error {
	if err := x.cfg.Log.Sync(ctx); err != nil {
		return err
	}
	return refusal
}

// append writes the decision. It returns false where another writer was
// faster.
//
// The turn is passed on once the message is in the log, so that an owner's
// commands share syncs as those of many owners do. The next ones are decided on a
// state that a power cut may still take. They are taken with it: whatever is
// answered, an append or a refusal, a sync that began later comes first.
func (x *Executor) append(ctx context.Context, t *turn, d Decision, commandID string, now time.Time) (bool, error) {
	e := t.of
	batch := make([]events.Event, len(d.Events))
	trace := tracing.Parent(ctx)
	for i, data := range d.Events {
		batch[i] = events.Event{
			ID: x.cfg.NewID(), Source: x.cfg.Source, Owner: e.state.Owner, Time: events.At(now),
			OwnerVersion: e.state.Version + 1, CommandID: commandID, TraceParent: trace, Data: data,
		}
	}
	payload, err := events.EncodeBatch(batch)
	if err != nil {
		return false, fmt.Errorf("encode decision: %w", err)
	}
	appended, err := x.cfg.Log.Append(ctx, eventlog.Append{
		Family: events.FamilyLedger, Owner: e.state.Owner, Kind: d.Kind,
		CommandID: commandID, Expected: e.state.Seq, Payload: payload,
	})
	switch {
	case errors.Is(err, eventlog.ErrConflict):
		e.fresh = false
		return false, nil
	case err != nil:
		// The message may be in the log. Nothing is lost: the next command of this owner
		// looks first.
		e.fresh = false
		return false, err
	}
	e.state.Apply(appended.Seq, batch)
	t.pass()
	return true, appended.Wait(ctx)
}

// catchUp brings the entry's state to the newest event of the owner.
func (x *Executor) catchUp(ctx context.Context, owner events.Owner, t *turn) error {
	e := t.of
	if e.state != nil && len(e.state.idempotent) > mostAnswers {
		// All of others' keyed writes, while there was none here to trim them. What
		// is loaded may be beyond what the keys were taken from.
		e.state = nil
		e.keys.drop()
	}
	if e.state == nil {
		var state *State
		err := x.ask(ctx, t, func() (err error) {
			state, err = x.cfg.Loader.Load(ctx, owner)
			return err
		})
		if err != nil {
			return fmt.Errorf("load owner: %w", err)
		}
		state.usedKeys, state.leftTo = e.keys, state.Leaves
		// What the read model says nothing of comes from the log alone.
		e.state, e.unproven = state, state.Seq > 0 || state.Version != 0 || state.Leaves > 0
	}
	if e.unproven {
		// The owner's newest message, where the state has it, also says that there is no
		// tail: an owner who was away costs the log's server one look into an old block.
		// What seems to contradict the log is looked at again below: the leader may be
		// behind a replica for a moment.
		if compared, err := x.confirm(ctx, e.state); compared || err != nil && !errors.Is(err, eventlog.ErrContradiction) {
			e.unproven, e.fresh = !compared, compared
			return err
		}
	}
	err := x.cfg.Log.OwnerTail(ctx, events.FamilyLedger, owner, e.state.Seq, func(r eventlog.Record) error {
		batch, err := events.DecodeBatch(r.Payload)
		if err != nil {
			return fmt.Errorf("sequence %d: %w", r.Seq, err)
		}
		e.state.Apply(r.Seq, batch)
		return nil
	})
	if err != nil {
		e.state = nil // the read model may be nearer to the log's end than what is remembered
		return fmt.Errorf("read owner's tail: %w", err)
	}
	if e.unproven {
		compared, err := x.confirm(ctx, e.state)
		if err != nil {
			e.state = nil // load it again: the read model may be rebuilt
			return err
		}
		e.unproven = !compared
	}
	e.fresh = true
	return nil
}
