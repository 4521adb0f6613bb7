package anchorer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/schema"
)

const (
	// soon is the pause between steps while there is more to do.
	soon = 50 * time.Millisecond
	// countEvery is how often what waits is counted, for the metrics.
	countEvery = 5 * time.Second
	minBackoff = 200 * time.Millisecond
	maxBackoff = 10 * time.Second
)

// Anchorer anchors all owners' logs.
type Anchorer struct {
	cfg     Config
	status  status
	metrics *metrics
}

// New returns an anchorer that does nothing until Run.
func New(cfg Config) (*Anchorer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	a := &Anchorer{cfg: cfg}
	a.status.session = errors.New("starting")
	var err error
	a.metrics, err = newMetrics(a)
	return a, err
}

// Run anchors until ctx ends, which it answers with nil. Whatever fails, it
// starts again from its checkpoint, after a pause.
func (a *Anchorer) Run(ctx context.Context) error {
	backoff := minBackoff
	for {
		started := time.Now()
		err := a.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		a.status.set(func(s *status) { s.session = err })
		a.cfg.Logger.Error("anchorer starts again", "err", err)
		if time.Since(started) > time.Minute {
			backoff = minBackoff
		}
		if !pause(ctx, backoff) {
			return nil
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// session is one life: the locks, the fold from the checkpoint on, and the
// steps, until something fails.
func (a *Anchorer) session(ctx context.Context) error {
	lock, err := a.takeTurn(ctx)
	if err != nil {
		return err
	}
	defer schema.Disconnect(lock)
	a.metrics.sessions.Inc()
	key, err := newRowKey(a.cfg.Authority)
	if err != nil {
		return err
	}
	s, err := openStore(ctx, a.cfg.Pool, a.cfg.Partitions, key, a.cfg.aroundSave)
	if err != nil {
		return err
	}
	err = a.work(ctx, s, lock)
	switch {
	case errors.Is(err, errOtherLog):
		// What was folded is of a log that is gone. Going on from there would leave
		// out what this one has before that position.
		a.cfg.Logger.Error("the log is not the one that the anchorer's state was made from; it is made anew, from the first message on",
			"partitions", s.partitions.String(), "err", err)
	case errors.Is(err, errAltered):
		// Whoever altered one row may have altered others.
		a.metrics.alarms.Inc()
		a.cfg.Logger.Error("somebody wrote to the anchorer's tables, or the authority is another one than before; "+
			"the state is made anew, from the log's first message on", "partitions", s.partitions.String(), "err", err)
	default:
		return err
	}
	if err := s.renew(ctx, lock); err != nil {
		return err
	}
	return a.work(ctx, s, lock)
}

// errOtherLog says that the log is not the one that the checkpoint was made
// from: it has lost messages, or was restored from a backup, or is another one.
var errOtherLog = errors.New("the log has lost messages or is another one")

// work anchors from the checkpoint on. It fails with errOtherLog where that is
// none of this log.
func (a *Anchorer) work(ctx context.Context, s *store, lock *pgx.Conn) (err error) {
	cluster, err := s.cluster(ctx)
	if err != nil {
		return err
	}
	head, err := a.cfg.Log.Head(ctx)
	if err != nil {
		return err
	}
	if position := s.marks.highest(); position > head {
		return fmt.Errorf("%w: the checkpoint is at sequence %d, the log ends at %d", errOtherLog, position, head)
	}
	wake := make(chan struct{}, 1)
	f, err := newFollower(s, a.cfg.Log, a.cfg.CachedOwners, new(atomic.Uint64), wake)
	if err != nil {
		return err
	}
	d := a.newDriver(s, f, cluster)
	a.status.set(func(s *status) {
		s.session, s.standby, s.behind, s.working = nil, false, true, a.cfg.Partitions.Count()
	})
	defer func() { a.status.idle(err) }()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return ended(ctx, f.run(ctx)) })
	group.Go(func() error { return ended(ctx, a.holdTurn(ctx, lock)) })
	group.Go(func() error { return ended(ctx, a.drive(ctx, d, head, wake)) })
	return group.Wait()
}

// ended makes sure that a part that ends takes the session with it.
func ended(ctx context.Context, err error) error {
	if err == nil && ctx.Err() == nil {
		return errors.New("a part of the anchorer ended")
	}
	return err
}

func (a *Anchorer) newDriver(s *store, f *follower, cluster string) *driver {
	return &driver{
		cfg: &a.cfg, store: s, follower: f, status: &a.status, metrics: a.metrics, genesis: cluster,
		signer:  signer{a.cfg.Authority, a.cfg.Program, a.cfg.PriorityFee},
		flights: make(map[string]*flight), busy: make(map[events.Owner]uint64), held: make(map[events.Owner]*hold),
		lag: newLaggards(),
	}
}

// drive steps once the fold has come to where the log ended at the start: what
// is decided before that would be decided on old news.
func (a *Anchorer) drive(ctx context.Context, d *driver, head uint64, wake <-chan struct{}) error {
	for d.follower.position.Load() < head {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
	}
	a.status.set(func(s *status) { s.behind = false })
	var counted time.Time
	for {
		more, err := d.step(ctx)
		if err != nil {
			return err
		}
		if time.Since(counted) >= countEvery {
			if err := a.count(ctx, d); err != nil {
				return err
			}
			counted = time.Now()
		}
		if !a.rest(ctx, more, wake) {
			return nil
		}
	}
}

// rest waits for the next step: until the next poll, or, where events of ours
// are on their way through the fold, until they have come.
func (a *Anchorer) rest(ctx context.Context, more bool, wake <-chan struct{}) bool {
	timer := time.NewTimer(a.cfg.PollEvery)
	defer timer.Stop()
	if !more {
		wake = nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-wake:
		return pause(ctx, min(soon, a.cfg.PollEvery))
	}
}

// count feeds the metrics.
func (a *Anchorer) count(ctx context.Context, d *driver) error {
	c, err := d.store.count(ctx)
	if err != nil {
		return err
	}
	position := d.follower.position.Load() // before the log is asked
	head, err := a.cfg.Log.Head(ctx)
	if err != nil {
		return err
	}
	if position > head {
		// The next session finds out whether its checkpoint is still of this log.
		return fmt.Errorf("sequence %d is folded, the log ends at %d", position, head)
	}
	a.status.set(func(s *status) { s.counts, s.lag = c, head-position })
	return nil
}
