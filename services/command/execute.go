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

// ErrOverloaded: too many commands are waiting, of one owner or of all. Nothing was stored.
// Answer 503.
var ErrOverloaded = errors.New("too many commands are waiting")

// errAsking: too many commands are waiting for the read model.
var errAsking = fmt.Errorf("%w for the read model", ErrOverloaded)

// Loader loads the state of owners that are not in memory from the read model.
type Loader interface {
	// Load returns the owner's state at some position of the projection. It may be
	// arbitrarily old; later events are read from the log.
	Load(ctx context.Context, owner events.Owner) (*State, error)
	// FindWritten looks up the answer to an earlier write by its Idempotency-Key. leaves is
	// how many of the owner's leaves, from the first on, it has searched.
	FindWritten(ctx context.Context, owner events.Owner, key events.Hash) (w Written, found bool, leaves uint64, err error)
	// UsedKeys returns the Idempotency-Keys that FindWritten would find, in any order. If
	// there are more than limit, it returns any limit+1 of them.
	UsedKeys(ctx context.Context, owner events.Owner, limit int) ([]events.Hash, error)
	// Leaves returns how many leaves of the owner FindWritten searches.
	Leaves(ctx context.Context, owner events.Owner) (uint64, error)
}

// Config of an Executor.
type Config struct {
	Log interface {
		eventlog.Appender
		eventlog.Reader
	}
	Loader Loader
	Source string           // CloudEvents source: "/core" or "/extension"
	Now    func() time.Time // nil means time.Now
	NewID  func() string    // UUIDv7
	// CachedOwners bounds the states kept in memory. 0 means 100,000.
	CachedOwners int
	// Timeout bounds a command whose context has no earlier deadline. 0 means 5 s.
	Timeout time.Duration
	// MaxRunning bounds the commands, of all owners, that are decided and appended at the
	// same time; 0 means 64. MaxWaiting bounds the commands that have their owner's turn
	// and wait for one of these slots.
	MaxRunning, MaxWaiting int
}

const (
	defaultCachedOwners = 100_000
	defaultTimeout      = 5 * time.Second
	// maxQueued bounds the commands of one owner that wait in this process.
	maxQueued = 1024
	// maxAppending bounds how long the appends of one owner's messages in a row take in this
	// process, and maxStreak how many there are if commands queue. Then the owner's waiting
	// commands pause for pauseAppends times as long as the last append took, at most
	// maxAppending. Without the pause, this process could win every race for the owner's next
	// message, and the commands of another would end at their deadline: that one needs the
	// time of about three appends for one try, because it reads the tail after each append
	// that lost. A client that writes one memory after another leaves enough time itself,
	// unless the log is slow.
	maxStreak    = 64
	maxAppending = 500 * time.Millisecond
	pauseAppends = 4
	// defaultMaxRunning is large enough that the log can share syncs, and small enough to
	// leave processor time for requests that are not commands.
	defaultMaxRunning = 64
	// maxIdempotent is how many answers a state keeps, about 40 kB, before it asks the read
	// model which of them it has. If the states of many owners are kept, it is less: all
	// states should keep allIdempotent answers, about 40 MB, but each at least
	// leastIdempotent. If the projector is down, or does not answer within trimPatience, the
	// state may keep up to mostAnswers, 20 MB.
	maxIdempotent   = 128
	allIdempotent   = 1 << 17
	leastIdempotent = 8
	mostAnswers     = 1 << 16
	trimPatience    = 250 * time.Millisecond
)

// Executor carries out commands.
type Executor struct {
	cfg     Config
	owners  *lru.Cache[events.Owner, *entry]
	running chan struct{} // one slot per running command
	waiting chan struct{} // one slot per command that waits to run
	asking  chan struct{} // one slot per command that waits for the read model
	keys    *atomic.Int64 // how many more used Idempotency-Keys may be kept in memory
	// Hits counts the commands whose owner's state was in memory.
	Hits *cachestats.Counter
}

// entry holds one owner's state and serializes the commands on it until their messages are
// in the log. Commands that only wait for stable storage share that wait. If an entry is
// evicted while in use, a second entry for the owner may appear; the log's expected
// sequence decides between the two.
type entry struct {
	turn  chan struct{} // holds one token; the command that took it owns state
	queue chan struct{} // one slot per command that has not ended
	state *State        // nil: not loaded
	fresh bool          // false: the log may hold events that state lacks
	// unproven: state came from the read model, and has not been compared with the log.
	unproven bool
	keys     *usedKeys
	streak   streak
}

// streak is what this process appended since it last read the owner's tail, or paused.
type streak struct {
	appends int
	took    time.Duration
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

// As returns an Executor with another event source that shares everything else.
func (x *Executor) As(source string) *Executor {
	as := *x
	as.cfg.Source = source
	return &as
}

// Cached returns how many owners' states are in memory.
func (x *Executor) Cached() int { return x.owners.Len() }

// Execute carries out a command of an owner. When it returns without error, the events are
// on stable storage and the command's answer fields are set.
//
// Errors: the refusals of this package; ErrOverloaded, fence.ErrBehind, and
// eventlog.ErrUnavailable (nothing was stored); eventlog.ErrUncertain (the events may have
// been stored).
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

// admit waits for a free slot to run.
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

// release frees a running command's slot.
func (x *Executor) release(t *turn) {
	if t.running {
		t.running = false
		<-x.running
	}
}

// ask asks the read model. The command frees its slot meanwhile, so that a slow database
// does not delay commands that don't need it.
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

// Forget drops the cached states, because the read models they were loaded from have been
// replaced and may have been wrong. Commands that have their turn, or wait for it, finish
// with the old state.
func (x *Executor) Forget() { x.owners.Purge() }

// Standing is an owner's status in the log.
type Standing struct {
	UserID     string
	Registered bool // the owner has signed in at least once
	Erasures   int  // how often the owner has erased everything
	// KeyMissing says that the data key may be missing: no leaf was sealed with it.
	KeyMissing bool
}

// Standing returns an owner's status in the log. The newest event may not be on stable
// storage yet.
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

// enter waits for the owner's turn. After success the command must pass the turn on, and
// leave.
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
	running bool // it holds a slot to run
}

// pass hands the state to the owner's next command. The caller must no longer use it.
func (t *turn) pass() {
	if !t.passed {
		t.passed = true
		t.of.turn <- struct{}{}
	}
}

// passAfter hands the state to the owner's next command after a pause. The caller must no
// longer use it.
func (t *turn) passAfter(pause time.Duration) {
	t.passed = true
	time.AfterFunc(pause, func() { t.of.turn <- struct{}{} })
}

// run decides and appends until the command is stored or refused.
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
				return refusal
			}
			// The state may be old. Catch up and decide again before refusing.
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

// append writes the decision. It returns false if another writer was faster.
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
	began := time.Now()
	seq, err := x.cfg.Log.Append(ctx, eventlog.Append{
		Family: events.FamilyLedger, Owner: e.state.Owner, Kind: d.Kind,
		CommandID: commandID, Expected: e.state.Seq, Payload: payload,
	})
	switch {
	case errors.Is(err, eventlog.ErrConflict):
		e.fresh = false
		return false, nil
	case err != nil:
		// The message may be in the log. Nothing is lost: the owner's next command reads
		// the tail first.
		e.fresh = false
		return false, err
	}
	e.state.Apply(seq, batch)
	took := time.Since(began)
	e.streak.appends++
	e.streak.took += took
	if alone := len(e.queue) == 1; e.streak.took < maxAppending && (alone || e.streak.appends < maxStreak) {
		t.pass()
	} else {
		e.streak = streak{}
		t.passAfter(min(pauseAppends*took, maxAppending))
	}
	return true, nil
}

// catchUp brings the entry's state up to the owner's newest event.
func (x *Executor) catchUp(ctx context.Context, owner events.Owner, t *turn) error {
	e := t.of
	e.streak = streak{}
	if e.state != nil && len(e.state.idempotent) > mostAnswers {
		e.state = nil // too many answers to writes of other replicas; no command here trimmed them
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
		e.keys.restart()
		state.usedKeys, state.leftTo = e.keys, state.Leaves
		// If the read model knows nothing of the owner, the state comes from the log alone.
		e.state, e.unproven = state, state.Seq > 0 || state.Version != 0 || state.Leaves > 0
	}
	if e.unproven {
		// If the state includes the owner's newest message, there is no tail to read. So an
		// owner who was away costs the log server one lookup in an old block. An apparent
		// contradiction is checked again below: the leader may be behind a replica for a
		// moment.
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
		e.state = nil // load again: the read model may be newer than this state
		return fmt.Errorf("read owner's tail: %w", err)
	}
	if e.unproven {
		compared, err := x.confirm(ctx, e.state)
		if err != nil {
			e.state = nil // load again: the read model may be rebuilding
			return err
		}
		e.unproven = !compared
	}
	e.fresh = true
	return nil
}
