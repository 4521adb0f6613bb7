package anchorer

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Anchorer anchors all owners' logs.
type Anchorer struct {
	cfg     Config
	store   *store
	folding *projector.Runner
	rent    *atomic.Uint64 // lamports of a commitment account; 0: not read yet
	wake    chan struct{}  // capacity 1: a slice was folded
	status  status
	metrics *metrics
}

// New returns an anchorer that does nothing until Run.
func New(cfg Config) (*Anchorer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	key, err := newRowKey(cfg.Authority)
	if err != nil {
		return nil, err
	}
	a := &Anchorer{
		cfg: cfg, store: &store{pool: cfg.Pool, key: key},
		rent: new(atomic.Uint64), wake: make(chan struct{}, 1),
	}
	if a.metrics, err = newMetrics(a); err != nil {
		return nil, err
	}
	a.folding, err = projector.New(projector.Config{
		Name: "anchorer", Pool: cfg.Pool, Schema: schemaName, Tables: tables{}, Log: cfg.Log, Lag: cfg.Lag,
		Projections: []projector.Projection{&fold{anchorer: a}}, Only: relevant,
		Work: a.drive, Renew: a.renewal, Applied: a.folded, Turn: cfg.Turn,
		Logger: cfg.Logger, MinBackoff: 200 * time.Millisecond, MaxBackoff: 10 * time.Second,
	})
	return a, err
}

// Run anchors until ctx ends, and then returns nil. After any failure it starts again
// from its checkpoint, after a pause.
func (a *Anchorer) Run(ctx context.Context) error { return a.folding.Run(ctx) }

// renewal returns the steps that empty the tables if err says that the tables can't be
// trusted. It returns nil for any other error. The log has everything that the tables
// held.
func (a *Anchorer) renewal(err error) []projector.Step {
	switch {
	case errors.Is(err, projector.ErrAheadOfLog), errors.Is(err, projector.ErrOtherLog):
		// The rows were folded from a log that no longer exists. Continuing from that
		// position would skip the messages that this log has before it.
		a.cfg.Logger.Error("this is not the log that the anchorer's state was built from; the state is rebuilt from the log's first message", "err", err)
	case errors.Is(err, errAltered):
		// Other rows may have been altered too.
		a.metrics.alarms.Inc()
		a.cfg.Logger.Error("the anchorer's tables were altered, or the authority has changed; "+
			"the state is rebuilt from the log's first message", "err", err)
	default:
		return nil
	}
	return a.store.empty()
}

// folded wakes the driver after each slice.
func (a *Anchorer) folded(uint64) {
	if a.cfg.around != nil {
		_ = a.cfg.around(true)
	}
	select {
	case a.wake <- struct{}{}:
	default: // a wake-up is already pending
	}
}

// drive runs steps until ctx ends or something fails. It begins once the fold holds all
// that the log held at the start. An earlier decision would rest on stale state.
func (a *Anchorer) drive(ctx context.Context) (err error) {
	defer func() { a.status.clear() }()
	d := a.newDriver()
	if d.genesis, err = a.store.cluster(ctx); err != nil {
		return err
	}
	var counted time.Time
	for {
		more, err := d.step(ctx)
		if err != nil {
			return err
		}
		// This is how often waiting owners are counted, for the metrics.
		if time.Since(counted) >= 5*time.Second {
			waiting, err := a.store.count(ctx)
			if err != nil {
				return err
			}
			a.status.set(func(s *status) { s.counts = waiting })
			counted = time.Now()
		}
		if !a.rest(ctx, more) {
			return nil
		}
	}
}

func (a *Anchorer) newDriver() *driver {
	a.rent.Store(0) // the rent may have changed: read it from the chain again
	return &driver{
		cfg: &a.cfg, store: a.store, rent: a.rent, status: &a.status, metrics: a.metrics,
		folded:  func() uint64 { return a.folding.Status().Position },
		signer:  signer{a.cfg.Authority, a.cfg.Program, a.cfg.PriorityFee},
		flights: make(map[string]*flight), busy: make(map[events.Owner]uint64), held: make(map[events.Owner]*hold),
		late: make(map[events.Owner]late),
	}
}

// rest waits for the next step: until the next poll or, if more is true, until a slice
// was folded. It returns false if ctx ended.
func (a *Anchorer) rest(ctx context.Context, more bool) bool {
	timer := time.NewTimer(a.cfg.PollEvery)
	defer timer.Stop()
	wake := a.wake
	if !more {
		wake = nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-wake:
		return eventlog.Pause(ctx, min(50*time.Millisecond, a.cfg.PollEvery))
	}
}
