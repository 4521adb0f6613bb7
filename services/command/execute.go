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
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/semaphore"

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
	Loader       Loader
	Source       string           // CloudEvents source: "/core" or "/extension"
	Now          func() time.Time // nil means time.Now
	NewID        func() string    // UUIDv7
	CachedOwners int              // states kept in memory
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
	present *semaphore.Weighted // commands
	running *semaphore.Weighted // commands that append
	used    *usedKeys
	// Hits counts the commands whose owner's state was in memory.
	Hits *cachestats.Counter
}

// entry holds one owner's state, which one command at a time works on. If an entry is
// evicted while in use, a second entry for the owner may appear; the log's expected
// sequence decides between the two.
type entry struct {
	queue *semaphore.Weighted // commands of the owner
	turn  *semaphore.Weighted // the command that has it owns what follows
	state *State              // nil: not loaded
	fresh bool                // false: the log may hold events that state lacks
	// unproven: state came from the read model, and has not been compared with the log.
	unproven bool
	keysRead int       // the epoch of usedKeys that has the owner's keys from before the load; or tooManyKeys
	rested   time.Time // until when the owner's commands last left others a turn
}

func NewExecutor(cfg Config) *Executor {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, 5*time.Second)
	owners, err := lru.New[events.Owner, *entry](cfg.CachedOwners)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	return &Executor{
		cfg: cfg, owners: owners, used: newUsedKeys(maxUsedKeys), Hits: &cachestats.Counter{},
		present: semaphore.NewWeighted(8 * maxRunning), running: semaphore.NewWeighted(maxRunning),
	}
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
	return x.inTurn(ctx, owner, func(ctx context.Context, e *entry) error {
		commandID := x.cfg.NewID()
		for caughtUp := false; ; {
			if !e.fresh {
				if err := x.catchUp(ctx, owner, e); err != nil {
					return err
				}
				caughtUp = true
			}
			if err := x.recall(ctx, e, c); err != nil {
				return err
			}
			if err := x.findAlike(ctx, e, c); err != nil {
				return err
			}
			now := x.cfg.Now()
			decision, refusal := c.decide(e.state, now)
			if refusal == nil && len(decision.Events) > 0 {
				if stored, err := x.append(ctx, e, decision, commandID, now); stored || err != nil {
					return err
				}
			} else if caughtUp {
				return refusal
			} else {
				e.fresh = false // the state may be old: decide again before refusing
			}
		}
	})
}

// inTurn calls do, which has the owner's state for itself, and then lets the owner rest.
func (x *Executor) inTurn(ctx context.Context, owner events.Owner, do func(context.Context, *entry) error) error {
	ctx, cancel := context.WithTimeout(ctx, x.cfg.Timeout)
	defer cancel()
	ctx, span := tracing.Start(ctx, "decide")
	defer span.End()
	e := x.entry(owner)
	for _, bound := range []*semaphore.Weighted{e.queue, x.present} {
		if !bound.TryAcquire(1) {
			return ErrOverloaded
		}
		defer bound.Release(1)
	}
	if err := e.turn.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("%w: %w", ErrOverloaded, err)
	}
	defer func() { // even if do panics: the API answers 500, and goes on
		if rest := time.Until(e.rested); rest > 0 {
			time.AfterFunc(rest, func() { e.turn.Release(1) })
		} else {
			e.turn.Release(1)
		}
	}()
	return do(ctx, e)
}

func (x *Executor) entry(owner events.Owner) *entry {
	if e, ok := x.owners.Get(owner); x.Hits.Count(ok) {
		return e
	}
	e := &entry{queue: semaphore.NewWeighted(4 * maxRunning), turn: semaphore.NewWeighted(1)}
	if earlier, ok, _ := x.owners.PeekOrAdd(owner, e); ok {
		return earlier
	}
	return e
}

// append writes the decision. It returns false if another writer was faster.
func (x *Executor) append(ctx context.Context, e *entry, d Decision, commandID string, now time.Time) (stored bool, err error) {
	trace := tracing.Parent(ctx)
	batch := make([]events.Event, len(d.Events))
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
	if err := x.running.Acquire(ctx, 1); err != nil {
		return false, fmt.Errorf("%w: %w", ErrOverloaded, err)
	}
	defer x.running.Release(1)
	began := time.Now()
	seq, err := x.cfg.Log.Append(ctx, eventlog.Append{
		Family: events.FamilyLedger, Owner: e.state.Owner, Kind: d.Kind,
		CommandID: commandID, Expected: e.state.Seq, Payload: payload,
	})
	if err != nil {
		// The message may be in the log. Nothing is lost: the tail is read before the state
		// is used again.
		e.fresh = false
		if errors.Is(err, eventlog.ErrConflict) {
			err = x.overtaken(ctx, e, err)
		}
		return false, err
	}
	x.apply(e, seq, batch)
	e.rest(began, len(payload))
	return true, nil
}

// rest makes the owner's next command wait after an append, now and then. Otherwise this
// process could win every race for the owner's next message: another one needs the time of
// several appends for one try, because it learns of the messages before its own from an
// append that lost. Its messages are short, even while this one writes those of an import.
func (e *entry) rest(began time.Time, bytes int) {
	const short = 32 << 10
	took := time.Since(began)
	if began.Sub(e.rested) >= min(80*took, time.Second/2) {
		rest := min(8*took*short/time.Duration(max(short, bytes)), time.Second/2)
		e.rested = began.Add(took + rest)
	}
}

// apply folds a message into the state.
func (x *Executor) apply(e *entry, seq uint64, batch []events.Event) {
	e.state.Apply(seq, batch)
	eachWritten(seq, batch, func(_ Written, data *events.MemoryWritten) {
		if data.IdempotencyKeyHash != nil {
			x.used.add(e.state.Owner, *data.IdempotencyKeyHash)
		}
	})
}
