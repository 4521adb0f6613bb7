package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/tracing"
	"github.com/memory-ledger/ledger/projections/owners"
	"github.com/memory-ledger/ledger/projections/projection"
	"github.com/memory-ledger/ledger/projections/schema"
)

// session is one life of the projector: a connection that holds the lock, and
// the slices from its checkpoint on, until something fails.
type session struct {
	runner *Runner
	end    context.CancelCauseFunc

	mu       sync.Mutex // guards what follows
	conn     *pgx.Conn
	position uint64
	// unproven is when the log stored the message at the checkpoint, until the
	// log has shown that message again.
	unproven *time.Time
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
	s := &session{runner: r, conn: conn}
	if err := conn.QueryRow(ctx, `SELECT seq, stored_at FROM checkpoint`).Scan(&s.position, &s.unproven); err != nil {
		return fmt.Errorf("read checkpoint: %w", err)
	}
	head, err := r.cfg.Log.Head(ctx)
	if err != nil {
		return err
	}
	if s.position > head {
		return r.aheadOfLog(s.position, head)
	}
	s.replanAt = nextReplan(s.position)
	r.begin(s.position, head)
	r.cfg.Logger.Info("projector is active", "position", s.position, "head", head)
	return s.project(ctx, maxRecords)
}

const howToRecover = "the log has lost messages or is not the one that these tables were made from; " +
	"restore the log, or drop the schema and start again, which replays the log from the first message"

func (r *Runner) aheadOfLog(position, head uint64) error {
	return fmt.Errorf("%w: the checkpoint of schema %q is at sequence %d, the log ends at %d: %s",
		ErrAheadOfLog, schema.Name(r.cfg.Pool), position, head, howToRecover)
}

func (r *Runner) otherLog(position uint64, was, is time.Time) error {
	return fmt.Errorf("%w: the checkpoint of schema %q is a message that the log stored at %s, the log's message at sequence %d is of %s: %s",
		ErrOtherLog, schema.Name(r.cfg.Pool), was.UTC().Format(time.RFC3339Nano), position, is.UTC().Format(time.RFC3339Nano), howToRecover)
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

// project runs the router over the slices after the checkpoint. The first of
// them begins with the message at the checkpoint, as proof that this is the
// log that the rows came from.
func (s *session) project(ctx context.Context, maxRecords int) error {
	r := s.runner
	ctx, s.end = context.WithCancelCause(ctx)
	defer s.end(nil)
	from := s.position + 1
	if s.position == 0 {
		s.unproven = nil
	} else if s.unproven != nil {
		from = s.position
	}
	subscriber := NewSliceSubscriber(r.cfg.Log, SliceConfig{
		From: from, MaxRecords: maxRecords, RetryPause: r.cfg.MinBackoff, Pace: slicePace, Hurry: r.hurry,
	})
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: r.cfg.ApplyTimeout + time.Second}, watermill.NopLogger{})
	if err != nil {
		return fmt.Errorf("make router: %w", err)
	}
	router.AddConsumerHandler("projections", "log", subscriber, s.handle)

	var watch sync.WaitGroup
	watch.Go(func() { s.watch(ctx) })
	err = router.Run(ctx)
	s.end(nil)
	watch.Wait()
	if closeErr := subscriber.Close(); err == nil {
		err = closeErr
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if followErr := subscriber.Err(); followErr != nil {
		if errors.Is(followErr, eventlog.ErrTruncated) {
			return fmt.Errorf("%w: %w: %s", ErrAheadOfLog, followErr, howToRecover)
		}
		return fmt.Errorf("follow the log: %w", followErr)
	}
	return err
}

// handle applies one slice. It runs to its end also when the projector is told
// to stop, within the drain timeout. Whatever goes wrong in it, a panic as
// well, ends the session.
func (s *session) handle(msg *message.Message) (err error) {
	slice, ok := SliceOf(msg)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
		if err != nil {
			err = fmt.Errorf("apply sequences %d to %d: %w", slice.First, slice.Last, err)
			s.end(err)
		}
	}()
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
	traced, span := s.runner.trace(ctx, slice)
	err = s.apply(traced, slice)
	tracing.End(span, err)
	if err != nil {
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
	if s.unproven != nil {
		var err error
		if slice, err = s.prove(slice); err != nil {
			return err
		}
	}
	if slice.Last <= s.position {
		return nil // nothing after the checkpoint
	}
	if slice.First != s.position+1 {
		return fmt.Errorf("%w: slice begins at %d, checkpoint is at %d", eventlog.ErrGap, slice.First, s.position)
	}
	if err := s.date(ctx, &slice.Records[len(slice.Records)-1]); err != nil {
		return err
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

// errDated ends a look at the log.
var errDated = errors.New("the message was found")

// date asks the log when it stored a message that did not come from it; see
// eventlog.Tail. The checkpoint keeps the time, to know the log by.
func (s *session) date(ctx context.Context, r *projection.Record) error {
	if !r.Stored.IsZero() {
		return nil
	}
	err := s.runner.cfg.Log.OwnerTail(ctx, r.Family, r.Owner, r.Seq-1, func(found eventlog.Record) error {
		if found.Seq == r.Seq {
			r.Stored = found.Time
		}
		return errDated
	})
	if r.Stored.IsZero() {
		return fmt.Errorf("the log does not have the message at sequence %d: %w", r.Seq, errors.Join(err, eventlog.ErrGap))
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

// prove checks that the log's message at the checkpoint is the one that was
// projected, and returns what comes after it. A log that lost its end and went
// on, in a power cut before its last bytes were on the disk, is found out here
// though it is as long as it was.
func (s *session) prove(slice projection.Slice) (projection.Slice, error) {
	is := slice.Records[0].Stored
	// PostgreSQL keeps microseconds.
	if difference := is.Sub(*s.unproven); slice.First != s.position || difference.Abs() > time.Microsecond {
		return slice, s.runner.otherLog(s.position, *s.unproven, is)
	}
	s.unproven = nil
	slice.First++
	slice.Records = slice.Records[1:]
	return slice, nil
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
		position := s.runner.Status().Position
		head, err := s.runner.cfg.Log.Head(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil && head < position {
			s.end(s.runner.aheadOfLog(position, head))
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
