package anchorer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/tracing"
)

const (
	// appenders bounds the appends under way at once.
	appenders = 32
	// appendPatience is how long an append whose answer was lost, or that the
	// log could not take, is repeated before the session is given up.
	appendPatience = 30 * time.Second
	appendPause    = 200 * time.Millisecond
	// maxHeld bounds the owners that are kept back; beyond it the oldest hold
	// is forgotten, and its owner merely tried again early.
	maxHeld = 10_000
)

// inFlight marks an owner as busy until its flight ends.
const inFlight = math.MaxUint64

// hold keeps an owner back for a while.
type hold struct {
	until  time.Time
	alone  bool // goes in a transaction of its own when it comes again
	times  int
	alarm  error // why an operator should look; nil if there is no need
	repeat bool  // counts as the same trouble when it happens again
}

// driver moves batches forward, one step after the other. It is used by one
// goroutine.
type driver struct {
	cfg     *Config
	store   *store
	folded  func() uint64  // newest sequence that is folded
	rent    *atomic.Uint64 // lamports of a commitment account, as far as known
	signer  signer
	status  *status
	metrics *metrics

	flights map[string]*flight // by signature
	// busy owners are not looked for: until the fold has come to the sequence
	// of the newest event that was appended for them.
	busy map[events.Owner]uint64
	held map[events.Owner]*hold
	lag  *backlog

	unpaid  error  // why owners were left out when payable ones were last chosen
	genesis string // of the chain that commits belong on; empty until known
	streak  int    // flights that came to nothing since one succeeded
	resting time.Time
}

// step looks for work and moves everything forward as far as it goes now. It
// reports whether there is more to do soon. An error ends the session: the
// log or the database failed. Trouble with the chain is no error; it shows in
// the status, and the next step tries again.
func (d *driver) step(ctx context.Context) (busy bool, err error) {
	defer func() {
		if ctx.Err() == nil {
			d.status.setCache(d.lag.trouble(d.cfg.Now()))
			d.status.tell(d.cfg.Logger)
		}
	}()
	d.release()
	work, err := d.find(ctx)
	if err != nil {
		return false, err
	}
	idle := len(work) == 0 && len(d.flights) == 0
	if idle && !d.status.probeDue(d.cfg.Now()) {
		return false, nil
	}
	height, err := d.lookAtChain(ctx)
	d.status.setChain(err, d.cfg.Now())
	if err != nil || idle {
		return false, ctx.Err()
	}
	if err := d.advance(ctx, height); err != nil {
		return false, err
	}
	return true, d.launch(ctx, work)
}

// release lets go of the owners whose events the fold has seen.
func (d *driver) release() {
	position := d.folded()
	for key, seq := range d.busy {
		if seq <= position {
			delete(d.busy, key)
		}
	}
}

// find returns owners with an open batch that this process does not work on,
// and owners for whom one is to be cut, as many as there is room for. Those whose
// transaction is recorded may take all of it: they go into flight, and a flight
// ends. The others may come to nothing, and to nothing again at the next step.
func (d *driver) find(ctx context.Context) ([]*owner, error) {
	room := (d.cfg.MaxFlights - len(d.flights)) * packed
	if room <= 0 {
		return nil, nil
	}
	now := d.cfg.Now()
	except := make([]events.Owner, 0, len(d.busy)+len(d.held))
	for key := range d.busy {
		except = append(except, key)
	}
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
	later, again := d.lag.split(now)
	s := search{
		before: now.Add(-d.cfg.MaxWait), maxLeaves: uint64(d.cfg.MaxLeaves), limit: room,
		except: append(except, later...), behind: d.lag.behind(), again: again,
	}
	anchored, err := d.store.unsignedOwners(ctx, s, false)
	if err != nil {
		return nil, err
	}
	fresh, err := d.store.unsignedOwners(ctx, s, true)
	if err != nil {
		return nil, err
	}
	if len(anchored) < room && len(fresh) < room {
		// These are all: who lagged and is not among them was anchored by another.
		for _, key := range again {
			is := func(o *owner) bool { return o.key == key }
			if !slices.ContainsFunc(anchored, is) && !slices.ContainsFunc(fresh, is) {
				d.lag.forget(key)
			}
		}
	}
	return append(recorded, share(anchored, fresh, room)...), nil
}

// share fills the room, those first who wait longest. Owners who were anchored
// before and those who were not may each have half of it, and what the other
// half has left: while there is too little money for first commits, those who
// wait for one are found at every step, however many they are.
func share(anchored, fresh []*owner, room int) []*owner {
	n := min(len(anchored), max(room/2, room-len(fresh)))
	all := slices.Concat(anchored[:n], fresh[:min(len(fresh), room-n)])
	slices.SortStableFunc(all, func(a, b *owner) int { return a.oldest().Compare(b.oldest()) })
	return all
}

// errReset says that the endpoint serves another chain than the one that holds
// what was anchored.
var errReset = errors.New("the chain is not the one that holds the anchored roots")

// wayOut is what to do about errReset.
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

// checkGenesis compares the chain with the one of the confirmed batches, or,
// before there is one, with the one first seen. Nothing is sent to another
// chain, and nothing is believed that it says.
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
		// Nothing was ever anchored: a chain that is new is as good. What is in
		// flight was signed for the other one and expires.
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

// append appends events of different owners side by side and folds each that
// was stored. The result says for each event whether it was stored. If it was
// not, another process appended for that owner first. The owner is then left
// alone until the fold has read that event. An error means that the log does
// not answer.
func (d *driver) append(ctx context.Context, records []record) ([]bool, error) {
	stored := make([]bool, len(records))
	var mu sync.Mutex
	var group errgroup.Group
	group.SetLimit(appenders)
	for i, r := range records {
		group.Go(func() error {
			seq, err := d.appendOne(ctx, r)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				stored[i] = true
				d.metrics.events.WithLabelValues(string(r.data.EventType())).Inc()
			case errors.Is(err, eventlog.ErrConflict):
				if seq, err = d.cfg.Log.OwnerHead(ctx, events.FamilyChain, r.owner.key); err != nil {
					return err
				}
				d.metrics.conflicts.Inc()
			default:
				return err
			}
			d.busy[r.owner.key] = max(seq, d.busyUntilFlightEnds(r, stored[i]))
			return nil
		})
	}
	return stored, group.Wait()
}

// busyUntilFlightEnds is inFlight while the owner has an open batch.
func (d *driver) busyUntilFlightEnds(r record, stored bool) uint64 {
	if stored && r.owner.batch != nil {
		return inFlight
	}
	return 0
}

// appendOne appends until the log has said yes or no.
func (d *driver) appendOne(ctx context.Context, r record) (seq uint64, err error) {
	o, at := r.owner, d.cfg.Now()
	ctx, span := d.span(ctx, r)
	defer func() { tracing.End(span, err) }()
	id := d.cfg.NewID() // also the command's, which has no other event: 60 bytes less a batch
	event := events.Event{
		ID: id, Source: "/anchorer", Owner: o.key, Time: events.At(at),
		OwnerVersion: o.chainVersion + 1, CommandID: id, TraceParent: tracing.Parent(ctx), Data: r.data,
	}
	payload, err := events.EncodeBatch([]events.Event{event})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, appendPatience)
	defer cancel()
	for {
		seq, err := eventlog.AppendAndWait(ctx, d.cfg.Log, eventlog.Append{
			Family: events.FamilyChain, Owner: o.key, Kind: events.KindBatch,
			CommandID: event.CommandID, Expected: o.chainSeq, Payload: payload,
		})
		switch {
		case err == nil:
			if err := o.message(seq, event.OwnerVersion); err != nil {
				return 0, err
			}
			return seq, o.fold(r.data, event.Time.Time(), event.TraceParent)
		case errors.Is(err, eventlog.ErrConflict):
			return 0, err
		}
		if !eventlog.Pause(ctx, appendPause) {
			return 0, err
		}
	}
}

// keepBack holds an owner for a while, longer each time that it is held for
// the same kind of trouble.
func (d *driver) keepBack(key events.Owner, h hold, shortest, longest time.Duration) {
	if before := d.held[key]; before != nil && before.repeat && h.repeat {
		h.times = before.times + 1
	}
	wait := min(longest, shortest<<min(h.times, 16))
	h.until = d.cfg.Now().Add(wait)
	if h.alarm != nil {
		d.metrics.alarms.Inc()
		d.cfg.Logger.Error("anchoring of an owner is stopped", "owner", key, "err", h.alarm, "again in", wait)
	}
	if len(d.held) >= maxHeld {
		d.forgetOldest()
	}
	d.held[key] = &h
	d.status.setAlarm(d.firstAlarm())
}

func (d *driver) forgetOldest() {
	var oldest events.Owner
	var until time.Time
	for key, h := range d.held {
		if oldest == "" || h.until.Before(until) {
			oldest, until = key, h.until
		}
	}
	delete(d.held, oldest)
}

// clear forgets an owner's troubles.
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
		return nil
	}
	first := slices.Min(keys)
	return fmt.Errorf("%d owners are not anchored, among them %s: %w", len(keys), first, d.held[first].alarm)
}
