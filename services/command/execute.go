// Package command is the write side. A pure function takes a command, one owner's state,
// and the time, and returns events or a refusal. The events are appended with the owner's
// expected version.
//
//	        load (read model + tail of the log)
//	            |
//	command -> state -> decide --refusal on a fresh state--> error
//	            ^         |  \
//	            |         |   refusal on a state that may be old: read the tail, decide again
//	   tail of  |      events
//	   the log  |         |
//	            |       append(expected version)
//	            |      /      |         \
//	            conflict    stored    uncertain: the tail is read before the state
//	                          |       is used again, and the client is told
//	                   apply to state
//
// Only the expected version is trusted. The state in memory may be old, and several
// processes may decide for one owner at once, but only one of them gets its events into the
// log. Therefore no leaf index is assigned twice, no grant is spent twice, and no revoked
// key writes, on any number of replicas.
package command

import (
	"cmp"
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
}

// maxRunning bounds the commands that append at the same time: enough of them share a sync,
// and few enough leave processor time for reads. There are eight times as many commands at
// most, half of them of one owner.
const maxRunning = 64

// Executor carries out commands.
type Executor struct {
	cfg     Config
	owners  *lru.Cache[events.Owner, *entry]
	present chan struct{} // one element for each command
	running chan struct{} // one element for each command that appends
	used    *usedKeys
	// Hits counts the commands whose owner's state was in memory.
	Hits *cachestats.Counter
}

// entry holds one owner's state, which one command at a time works on. If an entry is
// evicted while in use, a second entry for the owner may appear; the log's expected
// sequence decides between the two.
type entry struct {
	turn  chan struct{} // holds one element; the command that took it owns the rest
	queue chan struct{} // one element for each command of the owner
	state *State        // nil: not loaded
	fresh bool          // false: the log may hold events that state lacks
	// unproven: state came from the read model, and has not been compared with the log.
	unproven bool
	keysRead int       // the epoch of usedKeys that has the owner's keys from before the load
	rested   time.Time // when the owner's commands last left others a turn

	asking    atomic.Bool   // trim asks how many leaves the read model has
	projected atomic.Uint64 // how many it had
}

func NewExecutor(cfg Config) (*Executor, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.CachedOwners = cmp.Or(cfg.CachedOwners, 100_000)
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second)
	owners, err := lru.New[events.Owner, *entry](cfg.CachedOwners)
	if err != nil {
		return nil, fmt.Errorf("owner cache: %w", err)
	}
	return &Executor{
		cfg: cfg, owners: owners, used: newUsedKeys(maxUsedKeys), Hits: &cachestats.Counter{},
		present: make(chan struct{}, 8*maxRunning), running: make(chan struct{}, maxRunning),
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

// Forget drops the cached states, because the read models they were loaded from have been
// replaced and may have been wrong. Commands that have their turn, or wait for it, finish
// with the old state.
func (x *Executor) Forget() { x.owners.Purge() }

// Execute carries out a command of an owner. When it returns without error, the events are
// on stable storage and the command's answer fields are set.
//
// Errors: the refusals of this package; ErrOverloaded, fence.ErrBehind, and
// eventlog.ErrUnavailable (nothing was stored); eventlog.ErrUncertain (the events may have
// been stored).
func (x *Executor) Execute(ctx context.Context, owner events.Owner, c Command) error {
	return x.inTurn(ctx, owner, func(ctx context.Context, e *entry) (rest time.Duration, err error) {
		commandID := x.cfg.NewID()
		for caughtUp, stored := false, false; !stored; {
			if !e.fresh {
				if err := x.catchUp(ctx, owner, e); err != nil {
					return 0, err
				}
				caughtUp = true
			}
			if err := x.recall(ctx, e, c); err != nil {
				return 0, err
			}
			if err := x.findAlike(ctx, e, c); err != nil {
				return 0, err
			}
			now := x.cfg.Now()
			decision, refusal := c.decide(e.state, now)
			switch refused := refusal != nil || len(decision.Events) == 0; {
			case refused && caughtUp:
				return 0, refusal
			case refused:
				e.fresh = false // the state may be old: decide again before refusing
			default:
				if stored, rest, err = x.append(ctx, e, decision, commandID, now); err != nil {
					return 0, err
				}
			}
		}
		return rest, nil
	})
}

// inTurn calls do, which has the owner's state for itself. The owner's next command waits
// for as long as do says, in which other processes get their turn.
func (x *Executor) inTurn(ctx context.Context, owner events.Owner, do func(context.Context, *entry) (time.Duration, error)) error {
	ctx, cancel := context.WithTimeout(ctx, x.cfg.Timeout)
	defer cancel()
	ctx, span := tracing.Start(ctx, "decide")
	defer span.End()
	e := x.entry(owner)
	for _, bound := range []chan struct{}{e.queue, x.present} {
		select {
		case bound <- struct{}{}:
			defer func() { <-bound }()
		default:
			return ErrOverloaded
		}
	}
	select {
	case <-e.turn:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrOverloaded, ctx.Err())
	}
	rest, err := do(ctx, e)
	if rest > 0 {
		time.AfterFunc(rest, func() { e.turn <- struct{}{} })
	} else {
		e.turn <- struct{}{}
	}
	return err
}

func (x *Executor) entry(owner events.Owner) *entry {
	if e, ok := x.owners.Get(owner); x.Hits.Count(ok) {
		return e
	}
	e := &entry{turn: make(chan struct{}, 1), queue: make(chan struct{}, max(1, cap(x.present)/2))}
	e.turn <- struct{}{}
	if earlier, ok, _ := x.owners.PeekOrAdd(owner, e); ok {
		return earlier
	}
	return e
}

// append writes the decision. It returns false if another writer was faster. rest is how
// long to leave other processes a turn.
func (x *Executor) append(ctx context.Context, e *entry, d Decision, commandID string, now time.Time) (stored bool, rest time.Duration, err error) {
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
		return false, 0, fmt.Errorf("encode decision: %w", err)
	}
	select {
	case x.running <- struct{}{}:
		defer func() { <-x.running }()
	case <-ctx.Done():
		return false, 0, fmt.Errorf("%w: %w", ErrOverloaded, ctx.Err())
	}
	began := time.Now()
	seq, err := x.cfg.Log.Append(ctx, eventlog.Append{
		Family: events.FamilyLedger, Owner: e.state.Owner, Kind: d.Kind,
		CommandID: commandID, Expected: e.state.Seq, Payload: payload,
	})
	if err != nil {
		// The message may be in the log. Nothing is lost: the tail is read before the state
		// is used again.
		e.fresh = false
		if conflict := (eventlog.Conflict{}); errors.As(err, &conflict) {
			err = x.overtaken(ctx, e, conflict.Tail)
		} else if errors.Is(err, eventlog.ErrConflict) {
			err = nil
		}
		return false, 0, err
	}
	x.apply(e, seq, batch)
	return true, e.rest(began, len(payload)), nil
}

// rest returns for how long the owner's next command waits after an append. Now and then it
// must wait, or this process could win every race for the owner's next message: another one
// needs the time of several appends for one try, because it learns of the messages before its
// own from an append that lost. Its messages are short, even while this one writes those of an
// import.
func (e *entry) rest(began time.Time, bytes int) time.Duration {
	const short = 32 << 10
	took := time.Since(began)
	if began.Sub(e.rested) < min(80*took, time.Second/2) {
		return 0
	}
	rest := min(8*took*short/time.Duration(max(short, bytes)), time.Second/2)
	e.rested = began.Add(took + rest)
	return rest
}

// apply folds a message into the state.
func (x *Executor) apply(e *entry, seq uint64, batch []events.Event) {
	e.state.Apply(seq, batch)
	x.used.add(e.state.Owner, keysIn(batch)...)
}
