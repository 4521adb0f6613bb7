package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/owners"
	"github.com/memory-ledger/ledger/projections/projection"
	"github.com/memory-ledger/ledger/projections/schema"
)

// session is one life of the projector: a connection that holds the lock, and
// the slices from its checkpoint on, until something fails.
type session struct {
	runner *Runner
	end    context.CancelCauseFunc

	mu       sync.Mutex // guards conn and position
	conn     *pgx.Conn
	position uint64
	replanAt uint64
}

// session connects, waits for its turn, and projects until ctx ends or
// something fails. A crash anywhere in it leaves the last committed slice and
// its checkpoint behind, and no lock.
func (r *Runner) session(ctx context.Context, maxRecords int) error {
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	if err := r.takeTurn(ctx, conn); err != nil {
		return err
	}
	position, err := owners.Position(ctx, conn)
	if err != nil {
		return err
	}
	head, err := r.cfg.Log.Head(ctx)
	if err != nil {
		return err
	}
	if position > head {
		return aheadOfLog(position, head, schema.Name(r.cfg.Pool))
	}
	r.begin(position, head)
	r.cfg.Logger.Info("projector is active", "position", position, "head", head)
	return r.project(ctx, conn, position, maxRecords)
}

func aheadOfLog(position, head uint64, schemaName string) error {
	return fmt.Errorf("%w: the checkpoint of schema %q is at sequence %d, the log ends at %d: "+
		"the log has lost messages or is not the one that these tables were made from; "+
		"restore the log, or drop the schema and start again, which replays the log from the first message",
		ErrAheadOfLog, schemaName, position, head)
}

// connect opens a connection outside the pool: the lock belongs to it, and so
// do settings that nobody else should have.
func (r *Runner) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg := r.cfg.Pool.Config().ConnConfig.Copy()
	cfg.RuntimeParams["application_name"] = "memory-ledger projector"
	// The checkpoint travels with the rows: a database that loses its last
	// transactions in a crash loses both, and the log gives them again.
	cfg.RuntimeParams["synchronous_commit"] = "off"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return conn, nil
}

func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // whatever it says, the connection is gone
}

// takeTurn waits until no other projector works on the schema. It asks again
// and again rather than wait inside the database, where a waiting statement
// would hold back vacuum.
func (r *Runner) takeTurn(ctx context.Context, conn *pgx.Conn) error {
	key := schema.LockKey("projector", schema.Name(r.cfg.Pool))
	for {
		var mine bool
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, key).Scan(&mine); err != nil {
			return fmt.Errorf("take the projector's lock: %w", err)
		}
		if mine {
			return nil
		}
		r.setState(Standby, nil)
		if !pause(ctx, standbyInterval) {
			return ctx.Err()
		}
	}
}

// project runs the router over the slices from the position on.
func (r *Runner) project(ctx context.Context, conn *pgx.Conn, position uint64, maxRecords int) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s := &session{runner: r, end: end, conn: conn, position: position, replanAt: nextReplan(position)}
	subscriber := NewSliceSubscriber(r.cfg.Log, SliceConfig{From: position + 1, MaxRecords: maxRecords, RetryPause: r.cfg.MinBackoff})
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: r.cfg.ApplyTimeout + time.Second}, watermill.NopLogger{})
	if err != nil {
		return fmt.Errorf("make router: %w", err)
	}
	router.AddMiddleware(middleware.Recoverer)
	router.AddConsumerHandler("projections", "log", subscriber, s.handle)

	var watch sync.WaitGroup
	watch.Go(func() { s.watch(ctx) })
	err = router.Run(ctx)
	end(nil)
	watch.Wait()
	if closeErr := subscriber.Close(); err == nil {
		err = closeErr
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if followErr := subscriber.Err(); followErr != nil {
		if errors.Is(followErr, eventlog.ErrTruncated) {
			return fmt.Errorf("%w: %w", ErrAheadOfLog, followErr)
		}
		return fmt.Errorf("follow the log: %w", followErr)
	}
	return err
}

// handle applies one slice. It runs to its end also when the projector is told
// to stop, within the drain timeout.
func (s *session) handle(msg *message.Message) error {
	slice, ok := SliceOf(msg)
	if !ok {
		return errors.New("message without a slice")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(msg.Context()), s.runner.cfg.ApplyTimeout)
	defer cancel()
	stop := context.AfterFunc(msg.Context(), func() {
		timer := time.AfterFunc(s.runner.cfg.DrainTimeout, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	defer stop()
	start := time.Now()
	if err := s.apply(ctx, slice); err != nil {
		err = fmt.Errorf("apply sequences %d to %d: %w", slice.First, slice.Last, err)
		s.end(err)
		return err
	}
	m := s.runner.metrics
	m.apply.Observe(time.Since(start).Seconds())
	m.slices.Inc()
	m.records.Add(float64(len(slice.Records)))
	return nil
}

// nextReplan says at which position the statements' plans are made anew. A plan
// that was made for a table of a few rows reads all of it, and PostgreSQL
// keeps it until it next analyses the table: a replay fills tables faster than
// that, and each slice took twice as long after a hundred thousand owners. No
// plan outlives a doubling of the log.
func nextReplan(position uint64) uint64 { return 2*position + 1000 }

// apply writes a slice and its checkpoint.
func (s *session) apply(ctx context.Context, slice projection.Slice) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slice.Last <= s.position {
		return nil // sent again after it was committed
	}
	if slice.First != s.position+1 {
		return fmt.Errorf("%w: slice begins at %d, checkpoint is at %d", eventlog.ErrGap, slice.First, s.position)
	}
	if err := write(ctx, s.conn, s.runner.cfg.Projections, s.position, slice, slice.Last >= s.replanAt); err != nil {
		return err
	}
	if s.position = slice.Last; s.position >= s.replanAt {
		s.replanAt = nextReplan(s.position)
	}
	s.runner.applied(slice.Last)
	if s.runner.cfg.Applied != nil {
		s.runner.cfg.Applied(slice.Last)
	}
	return nil
}

// write commits what the projections make of a slice, and the checkpoint; replan
// drops the plans first, see nextReplan.
func write(ctx context.Context, conn *pgx.Conn, projections []Projection, from uint64, slice projection.Slice, replan bool) error {
	w := projection.NewWriter(conn)
	for _, p := range projections {
		if err := p.Apply(ctx, w, slice); err != nil {
			return fmt.Errorf("projection %s: %w", p.Name(), err)
		}
	}
	steps := w.Steps()
	if replan {
		steps = append([]projection.Step{{SQL: `DISCARD PLANS`}}, steps...)
	}
	stored := slice.Records[len(slice.Records)-1].Stored
	return commit(ctx, conn, steps, advance{from, slice.Last, stored})
}

// watch looks every second at the log's head, for the lag, and, where no
// slice is being written, at the connection: a database that went away must
// be noticed before the next slice needs it, and so must a checkpoint that
// somebody else moved.
func (s *session) watch(ctx context.Context) {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		head, err := s.runner.cfg.Log.Head(ctx)
		if ctx.Err() != nil {
			return
		}
		s.runner.observe(head, err, time.Now())
		if err := s.checkConn(ctx); err != nil && ctx.Err() == nil {
			s.end(err)
			return
		}
	}
}

func (s *session) checkConn(ctx context.Context) error {
	if !s.mu.TryLock() {
		return nil
	}
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.runner.cfg.DrainTimeout)
	defer cancel()
	position, err := owners.Position(ctx, s.conn)
	if err != nil {
		return err
	}
	if position != s.position {
		return fmt.Errorf("%w: from %d to %d", ErrFenced, s.position, position)
	}
	return nil
}
