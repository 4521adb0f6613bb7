package anchorer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// inFlight marks an owner as busy until its flight ends.
const inFlight = math.MaxUint64

// hold keeps an owner back for a while.
type hold struct {
	until time.Time
	alone bool // the next transaction holds only this owner's commit
	times int
	alarm error     // why an operator must look into it; nil: no need
	lacks time.Time // since when the tree cache lacks the owner's newest leaves; zero: it has them
}

// mostHeld bounds the owners that are held back. Beyond it one of the others is tried again
// early.
const mostHeld = 10_000

// lagPatience is how long the tree cache can lack leaves before it is reported.
const lagPatience = 3 * time.Minute

// driver moves batches forward, step by step. Only one goroutine uses it.
type driver struct {
	cfg     *Config
	store   *store
	folded  func() uint64  // newest folded sequence
	rent    *atomic.Uint64 // lamports of a commitment account; 0: not read yet
	signer  signer
	status  *status
	metrics *metrics

	flights map[string]*flight // by signature
	// busy owners are skipped until the fold has reached the sequence of the newest event
	// that was appended for them.
	busy map[events.Owner]uint64
	held map[events.Owner]*hold

	unpaid  error  // why owners were skipped in the last affordable; nil: none were
	genesis string // of the chain that commits belong on; empty: not known yet
	streak  int    // flights that failed since the last success
	resting time.Time
	stalled error // nil once a flight succeeded
}

// step looks for work and moves everything as far forward as it can now. An error ends the
// session: the log or the database failed. Trouble with the chain is not an error: it shows
// in the status, and the next step tries again.
func (d *driver) step(ctx context.Context) error {
	defer func() {
		if ctx.Err() == nil {
			d.status.setCache(d.lagging())
			d.status.tell(d.cfg.Logger)
		}
	}()
	d.release()
	work, err := d.find(ctx)
	if err != nil {
		return err
	}
	idle := len(work) == 0 && len(d.flights) == 0
	if idle && !d.status.probeDue(d.cfg.Now()) {
		return nil
	}
	height, err := d.lookAtChain(ctx)
	d.status.setChain(err, d.cfg.Now())
	if err != nil || idle {
		return ctx.Err()
	}
	if err := d.advance(ctx, height); err != nil {
		return err
	}
	return d.launch(ctx, work)
}

// release removes owners from busy once the fold has their newest events.
func (d *driver) release() {
	position := d.folded()
	for key, seq := range d.busy {
		if seq <= position {
			delete(d.busy, key)
		}
	}
}

var errLagging = errors.New("the tree cache lacks leaves that the log has; is a projector down?")

// lagging returns errLagging if the tree cache has lacked an owner's leaves for some
// minutes.
func (d *driver) lagging() error {
	for key, h := range d.held {
		if !h.lacks.IsZero() && d.cfg.Now().Sub(h.lacks) >= lagPatience {
			return fmt.Errorf("%w: of %s, since %s", errLagging, key, h.lacks.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// find returns owners with an open batch that this process does not work on yet, and
// owners who are due for a batch, as many as fit. Owners with a recorded transaction may
// take all the room: they go into flight, and every flight ends. The other owners may
// make no progress in this step, nor in the next one.
func (d *driver) find(ctx context.Context) ([]*owner, error) {
	most := d.cfg.MaxFlights
	if d.stalled != nil {
		most = 1 // the log keeps each attempt forever, and one shows as much as many
	}
	room := (most - len(d.flights)) * packed
	if room <= 0 {
		return nil, nil
	}
	now := d.cfg.Now()
	except := slices.Collect(maps.Keys(d.busy))
	for key, h := range d.held {
		if h.until.After(now) {
			except = append(except, key)
		}
	}
	recorded, err := d.store.recordedOwners(ctx, except, room)
	if err != nil || len(recorded) == room {
		return recorded, err
	}
	room -= len(recorded)
	s := search{before: now.Add(-d.cfg.MaxWait), maxLeaves: uint64(d.cfg.MaxLeaves), limit: room, except: except}
	anchored, err := d.store.unsignedOwners(ctx, s, false)
	if err != nil {
		return nil, err
	}
	fresh, err := d.store.unsignedOwners(ctx, s, true)
	if err != nil {
		return nil, err
	}
	if len(anchored) < room && len(fresh) < room {
		// The lists are complete: an owner whose hold is over and who is in none was anchored
		// by another process.
		for key, h := range d.held {
			if !h.until.After(now) && d.busy[key] == 0 && !lists(key, recorded, anchored, fresh) {
				d.clear(key)
			}
		}
	}
	return append(recorded, share(anchored, fresh, room)...), nil
}

func lists(key events.Owner, all ...[]*owner) bool {
	for _, list := range all {
		if slices.ContainsFunc(list, func(o *owner) bool { return o.key == key }) {
			return true
		}
	}
	return false
}

// share fills the room with the owners who have waited longest. Owners who were anchored
// before and owners who never were may each have half of it, plus the room that the other
// half leaves free. Even if the money for first commits is short, the owners who wait for
// a later commit are found at every step, however many wait for a first one.
func share(anchored, fresh []*owner, room int) []*owner {
	n := min(len(anchored), max(room/2, room-len(fresh)))
	all := slices.Concat(anchored[:n], fresh[:min(len(fresh), room-n)])
	slices.SortStableFunc(all, func(a, b *owner) int { return a.oldest().Compare(b.oldest()) })
	return all
}

// errReset says that the endpoint serves a different chain than the one that holds the
// anchored roots.
var errReset = errors.New("the chain is not the one that holds the anchored roots")

// wayOut tells the operator how to fix errReset.
const wayOut = "point SOLANA_RPC_URL at that chain again, or put a local run's chain back " +
	"(stop the run, remove the folder chain of its data folder, `ledger restore DIR --only chain`)"

// lookAtChain makes sure that the endpoint serves the right chain and returns
// its finalized height.
func (d *driver) lookAtChain(ctx context.Context) (chain.Height, error) {
	if err := d.checkGenesis(ctx); err != nil {
		return chain.Height{}, err
	}
	if d.rent.Load() == 0 {
		rent, err := d.cfg.Chain.Rent(ctx, accountLen)
		if err != nil {
			return chain.Height{}, err
		}
		d.rent.Store(rent)
	}
	return d.cfg.Chain.FinalizedHeight(ctx)
}

// checkGenesis compares the chain with the one of the confirmed batches or, before there
// is one, with the chain first seen. The anchorer sends nothing to a different chain and
// ignores its answers.
func (d *driver) checkGenesis(ctx context.Context) error {
	recorded, err := d.store.cluster(ctx)
	if err != nil {
		return err
	}
	if recorded != "" {
		d.genesis = recorded
	}
	seen, err := d.cfg.Chain.GenesisHash(ctx)
	if err != nil {
		return err
	}
	if d.genesis == "" {
		d.genesis = seen
	}
	if seen == d.genesis {
		return nil
	}
	if recorded == "" {
		// Nothing was ever anchored, so a new chain is just as good. The transactions in
		// flight were signed for the old chain and expire.
		d.cfg.Logger.Warn("another chain than before; nothing was anchored yet", "genesis", seen)
		d.genesis = seen
		return nil
	}
	return fmt.Errorf("%w: its genesis hash is %s, the anchored roots are on %s; %s", errReset, seen, d.genesis, wayOut)
}

// record is an event to append for an owner.
type record struct {
	owner *owner
	data  events.Data
}

// append appends events of different owners concurrently and folds each stored event. The
// result says for each event whether it was stored. If it was not, another process
// appended for that owner first. The owner is then skipped until the fold has read that
// process's event. An error means that the log does not answer.
func (d *driver) append(ctx context.Context, records []record) ([]bool, error) {
	stored := make([]bool, len(records))
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(32)
	for i, r := range records {
		group.Go(func() error {
			seq, err := d.appendOne(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				stored[i] = true
			case errors.Is(err, eventlog.ErrConflict):
				if seq, err = d.cfg.Log.OwnerHead(ctx, events.FamilyChain, r.owner.key); err != nil {
					return err
				}
			default:
				return err
			}
			if d.busy[r.owner.key] = seq; stored[i] && r.owner.Batch != nil {
				d.busy[r.owner.key] = inFlight
			}
			return nil
		})
	}
	return stored, group.Wait()
}

// appendOne retries until the log stores or rejects the event.
func (d *driver) appendOne(ctx context.Context, r record) (seq uint64, err error) {
	o, at := r.owner, d.cfg.Now()
	id := d.cfg.NewID() // also the command ID: the command has only this event, and sharing saves 60 bytes per batch
	event := events.Event{
		ID: id, Source: "/anchorer", Owner: o.key, Time: events.At(at),
		OwnerVersion: o.ChainVersion + 1, CommandID: id, Data: r.data,
	}
	payload, err := events.EncodeBatch([]events.Event{event})
	if err != nil {
		return 0, err
	}
	// This is how long a failed append is retried before the session ends. An append fails if
	// its answer was lost or the log could not accept it.
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		seq, err := d.cfg.Log.Append(ctx, eventlog.Append{
			Family: events.FamilyChain, Owner: o.key, Kind: events.KindBatch,
			CommandID: event.CommandID, Expected: o.ChainSeq, Payload: payload,
		})
		switch {
		case err == nil:
			if err := o.message(seq, event.OwnerVersion); err != nil {
				return 0, err
			}
			return seq, o.fold(r.data, event.Time.Time())
		case errors.Is(err, eventlog.ErrConflict):
			return 0, err
		}
		if !eventlog.Pause(ctx, 200*time.Millisecond) {
			return 0, err
		}
	}
}

// keepBack holds an owner back for a while, with an alarm. The time doubles at each further
// alarm, up to longest.
func (d *driver) keepBack(key events.Owner, h hold, shortest, longest time.Duration) {
	if before := d.held[key]; before != nil && before.alarm != nil {
		h.times = before.times + 1
	}
	wait := min(longest, shortest<<min(h.times, 16))
	h.until = d.cfg.Now().Add(wait)
	d.metrics.alarms.Inc()
	d.cfg.Logger.Error("anchoring of an owner is stopped", "owner", key, "err", h.alarm, "again in", wait)
	if d.held[key] == nil && len(d.held) >= mostHeld {
		// Not this one: its commit would be packed with the same owners' once more, and fail
		// with theirs.
		for other := range d.held {
			delete(d.held, other)
			break
		}
	}
	d.held[key] = &h
	d.status.setAlarm(d.firstAlarm())
}

// alone reports whether the owner's commit is tried alone, because it was refused.
func (d *driver) alone(key events.Owner) bool { return d.held[key] != nil && d.held[key].alone }

func (d *driver) clear(key events.Owner) {
	if d.held[key] != nil {
		delete(d.held, key)
		d.status.setAlarm(d.firstAlarm())
	}
}

func (d *driver) firstAlarm() error {
	var keys []events.Owner
	for key, h := range d.held {
		if h.alarm != nil {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return d.stalled
	}
	first := slices.Min(keys)
	return fmt.Errorf("%d owners are not anchored, among them %s: %w", len(keys), first, d.held[first].alarm)
}
