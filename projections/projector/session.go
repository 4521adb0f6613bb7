package projector

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/tracing"
	"github.com/memory-ledger/ledger/projections/schema"
)

// session is one run of the projector, until an error: a connection that holds the lock,
// and the slices from the checkpoint on.
type session struct {
	runner     *Runner
	decoder    decoder
	unproven   Checkpoint // zero once the log has shown the message at the checkpoint
	shortUntil uint64     // slices are short up to this sequence; 0 means that they are not short
	end        context.CancelCauseFunc

	mu   sync.Mutex // guards the fields below
	conn *pgx.Conn
	reached
	read uint64 // newest sequence received from the log

	head     uint64        // newest sequence of the log at the start
	caughtUp chan struct{} // closed when all messages up to head were read
}

// session connects, waits for its turn, and projects until ctx ends or an error occurs. A
// crash anywhere in it leaves the last committed slice and its checkpoint, and no lock.
func (r *Runner) session(ctx context.Context, maxRecords int) error {
	conn, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer schema.Disconnect(conn)
	if err := r.takeTurn(ctx, conn); err != nil {
		return err
	}
	err = r.project(ctx, conn, maxRecords)
	if r.cfg.Renew == nil || err == nil || ctx.Err() != nil {
		return err
	}
	steps := r.cfg.Renew(err)
	if steps == nil {
		return err
	}
	if err := r.renew(ctx, conn, steps); err != nil {
		return err
	}
	return r.project(ctx, conn, maxRecords)
}

// errPassed ends a session with short slices once it is past the messages that the failed
// slice can have held.
var errPassed = errors.New("past the trouble")

// project projects from the checkpoint on, with the lock held. Slices shorter than
// usual find a bad message; long ones cost the database far less, so project soon returns
// to them.
func (r *Runner) project(ctx context.Context, conn *pgx.Conn, maxRecords int) error {
	at, err := r.checkpoint(ctx, conn)
	if err != nil {
		return err
	}
	head, err := eventlog.HeadHolding(ctx, r.cfg.Log, at.Seq)
	if err != nil {
		return err
	}
	if at.Seq > head {
		return r.aheadOfLog(at.Seq, head)
	}
	s := &session{
		runner: r, conn: conn, reached: reached{at, nextReplan(at.Seq)},
		decoder: decoder{only: r.cfg.Only},
		head:    head, caughtUp: make(chan struct{}),
	}
	if at.Seq > 0 && !at.Stored.IsZero() {
		s.unproven = at
	}
	if maxRecords < r.cfg.SliceRecords {
		s.shortUntil = at.Seq + uint64(r.cfg.SliceRecords)
	}
	r.begin(at.Seq, head, time.Now())
	r.cfg.Logger.Info(r.cfg.Name+" is active", "position", at.Seq, "head", head)
	if err = s.run(ctx, maxRecords); errors.Is(err, errPassed) {
		return r.project(ctx, conn, r.cfg.SliceRecords)
	}
	return err
}

// renew runs the given steps, which empty the tables, and sets the checkpoint to 0. A crash
// before the commit changes nothing, and the next session fails the same way.
func (r *Runner) renew(ctx context.Context, conn *pgx.Conn, steps []Step) error {
	at, err := r.checkpoint(ctx, conn)
	if err != nil {
		return err
	}
	return commit(ctx, conn, steps, at, Checkpoint{})
}

func (r *Runner) checkpoint(ctx context.Context, conn *pgx.Conn) (Checkpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	return ReadCheckpoint(ctx, conn)
}

const howToRecover = "the log has lost messages or is not the one that these tables were made from; " +
	"restore the log, or run `ledger rebuild --force`, which makes the tables again from the log that there is"

// advice tells an operator what to do if the tables do not fit the log.
func (r *Runner) advice() string {
	if r.cfg.Renew != nil {
		return "the log has lost messages or is another one"
	}
	return howToRecover
}

func (r *Runner) aheadOfLog(position, head uint64) error {
	return fmt.Errorf("%w: the checkpoint of schema %q is at sequence %d, the log ends at %d: %s",
		ErrAheadOfLog, r.cfg.Schema, position, head, r.advice())
}

func (r *Runner) otherLog(position uint64, was, is time.Time) error {
	return fmt.Errorf("%w: the checkpoint of schema %q is a message that the log stored at %s, the log's message at sequence %d is of %s: %s",
		ErrOtherLog, r.cfg.Schema, was.UTC().Format(time.RFC3339Nano), position, is.UTC().Format(time.RFC3339Nano), r.advice())
}

// connect opens a connection outside the pool: it holds the lock, and has settings that
// no other connection should have.
func (r *Runner) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg := r.cfg.Pool.Config().ConnConfig.Copy()
	cfg.RuntimeParams["application_name"] = "memory-ledger " + r.cfg.Name
	cfg.RuntimeParams["search_path"] = r.cfg.Schema
	// The checkpoint commits with the rows. A database that loses its last transactions
	// in a crash loses both, and the log supplies them again.
	cfg.RuntimeParams["synchronous_commit"] = "off"
	schema.ForLocks(cfg)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return conn, nil
}

// run runs the router over the slices after the checkpoint. The first slice begins with
// the message at the checkpoint, which proves that the rows came from this log.
func (s *session) run(ctx context.Context, maxRecords int) error {
	r := s.runner
	ctx, s.end = context.WithCancelCause(ctx)
	defer s.end(nil)
	if s.read = s.at.Seq; s.unproven.Seq != 0 {
		s.read--
	}
	s.catchUp()
	subscriber := NewSliceSubscriber(r.cfg.Log, s.read+1, maxRecords)
	router, err := s.newRouter()
	if err != nil {
		return err
	}
	router.AddConsumerHandler("projections", "log", subscriber, s.handle)

	var beside sync.WaitGroup
	beside.Go(func() { s.watch(ctx) })
	if r.cfg.Work != nil {
		beside.Go(func() { s.work(ctx) })
	}
	err = router.Run(ctx)
	s.end(nil)
	beside.Wait()
	_ = subscriber.Close() // waits for the follower; never fails
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if followErr := subscriber.Err(); followErr != nil {
		if errors.Is(followErr, eventlog.ErrTruncated) {
			return fmt.Errorf("%w: %w: %s", ErrAheadOfLog, followErr, r.advice())
		}
		return fmt.Errorf("follow the log: %w", followErr)
	}
	return err
}

// work runs Config.Work beside the session, once the session has caught up.
func (s *session) work(ctx context.Context) {
	select {
	case <-s.caughtUp:
	case <-ctx.Done():
		return
	}
	err := s.runner.cfg.Work(ctx)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = errors.New("the work beside the projections ended")
	}
	s.end(err)
}

// catchUp closes caughtUp once everything was read that the log held at the start. The
// first message that is read proves the log, so the session can't catch up without that
// proof.
func (s *session) catchUp() {
	select {
	case <-s.caughtUp:
	default:
		if s.read >= s.head {
			close(s.caughtUp)
		}
	}
}

// handle applies the slice of a message. If the projector is stopped meanwhile, handle
// still finishes, within the drain timeout.
func (s *session) handle(msg *message.Message) error {
	raw, ctx := sliceOf(msg), msg.Context()
	for i := range raw.Records {
		if err := s.prove(&raw.Records[i]); err != nil {
			return err
		}
	}
	slice, err := s.decoder.decode(raw, s.at.Seq) // only this goroutine moves s.at
	if err != nil {
		return err
	}
	describe(ctx, slice)
	if err := s.apply(ctx, slice); err != nil {
		return err
	}
	s.runner.metrics.records.Add(float64(len(slice.Records)))
	return nil
}

// nextReplan returns the position at which the statements are planned again. A plan made
// for a table of a few rows reads the whole table, and PostgreSQL keeps the plan until it
// next analyzes the table. A replay fills tables faster than that: after a hundred
// thousand owners each slice took twice as long. So no plan is kept while the log
// doubles.
func nextReplan(position uint64) uint64 { return 2*position + 1000 }

func (s *session) apply(ctx context.Context, slice Slice) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slice.First != s.read+1 {
		return fmt.Errorf("%w: slice begins at %d, the one before ended at %d", eventlog.ErrGap, slice.First, s.read)
	}
	if slice.Last <= s.at.Seq {
		s.read = slice.Last // nothing new
		s.catchUp()
		return nil
	}
	if err := s.write(ctx, s.conn, s.runner.cfg.Projections, slice); err != nil {
		return err
	}
	s.read = slice.Last
	s.runner.applied(slice.Last)
	s.catchUp()
	if s.runner.cfg.Applied != nil {
		s.runner.cfg.Applied(slice.Last)
	}
	if s.shortUntil > 0 && s.read >= s.shortUntil {
		s.end(errPassed)
	}
	return nil
}

// reached is how far the rows of a schema are.
type reached struct {
	at       Checkpoint // as in the database
	replanAt uint64     // see nextReplan
}

// write commits the rows of the projections for a slice, and the checkpoint.
func (p *reached) write(ctx context.Context, conn *pgx.Conn, projections []Projection, slice Slice) error {
	w := NewWriter(conn)
	replan := slice.Last >= p.replanAt
	if replan {
		w.Exec(`DISCARD PLANS`)
	}
	if len(slice.Records) > 0 {
		for _, each := range projections {
			if err := each.Apply(ctx, w, slice); err != nil {
				return fmt.Errorf("projection %s: %w", each.Name(), err)
			}
		}
	}
	moved := Checkpoint{p.at.Generation, slice.Last, slice.Stored}
	if err := commit(ctx, conn, w.Steps(), p.at, moved); err != nil {
		return err
	}
	if p.at = moved; replan {
		p.replanAt = nextReplan(slice.Last)
	}
	return nil
}

// prove checks that the log's message at the checkpoint is the message that was
// projected. A power cut can lose the log's last messages before they reach the disk, and
// the log then goes on with others. prove detects this even if the log is as long as
// before.
func (s *session) prove(record *eventlog.Record) error {
	if was := s.unproven.Seq; was == 0 || record.Seq != was {
		return nil
	}
	// PostgreSQL keeps microseconds.
	if difference := record.Time.Sub(s.unproven.Stored); difference.Abs() > time.Microsecond {
		return s.runner.otherLog(record.Seq, s.unproven.Stored, record.Time)
	}
	s.unproven = Checkpoint{}
	return nil
}

// watch reads the log's head every second, for the lag. While no slice is being written,
// it also checks the connection, the tables and the checkpoint: a lost database, a
// checkpoint that another process moved, and tables that a newer program migrated must
// all be noticed before the next slice.
func (s *session) watch(ctx context.Context) {
	for eventlog.Pause(ctx, watchInterval) {
		position := s.runner.Status().Position // read before the log's head
		head, err := eventlog.HeadHolding(ctx, s.runner.cfg.Log, position)
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
	ctx, cancel := context.WithTimeout(ctx, schema.LookTimeout)
	defer cancel()
	if err := s.runner.cfg.Tables.Check(ctx, s.conn); err != nil {
		return err
	}
	is, err := ReadCheckpoint(ctx, s.conn)
	if err != nil {
		return err
	}
	if is.Generation != s.at.Generation || is.Seq != s.at.Seq {
		return fmt.Errorf("%w: from %d to %d", ErrFenced, s.at.Seq, is.Seq)
	}
	return nil
}

// newRouter returns a router. Its middlewares do everything for a slice except apply it.
//
// There is no Retry middleware. Retry would call the handler again with the same message.
// But after an error another projector may hold the lock, the checkpoint may have moved,
// and the projections may remember rows that were never written. So the session ends, and
// [Runner.Run] retries with backoff: it is the only restart loop.
func (s *session) newRouter() (*message.Router, error) {
	cfg := &s.runner.cfg
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: applyTimeout + time.Second},
		// The router logs only routine events, and errors that Run also reports.
		watermill.NewSlogLoggerWithLevelMapping(cfg.Logger, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug, slog.LevelError: slog.LevelDebug}))
	if err != nil {
		return nil, fmt.Errorf("make router: %w", err)
	}
	router.AddMiddleware(s.endAtError)
	if cfg.Tracer != nil {
		router.AddMiddleware(s.runner.trace)
	}
	router.AddMiddleware(s.runner.metrics.measure, middleware.Recoverer, s.runner.limit)
	return router, nil
}

// sliceError says that a slice could not be applied.
type sliceError struct{ error }

func (e sliceError) Unwrap() error { return e.error }

// endAtError ends the session if a slice could not be applied.
func (s *session) endAtError(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		out, err := next(msg)
		if err != nil {
			err = sliceError{fmt.Errorf("apply sequences %s: %w", msg.UUID, err)}
			s.end(err)
		}
		return out, err
	}
}

// trace gives each slice a span. The span is the root of a separate trace, because a
// slice holds events of many requests. handle links the span to their traces.
func (r *Runner) trace(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		ctx, span := tracing.Begin(msg.Context(), r.cfg.Tracer, "project", "", trace.SpanKindConsumer)
		msg.SetContext(ctx)
		out, err := next(msg)
		tracing.End(span, err)
		return out, err
	}
}

// describe records the slice's contents in the span of ctx, if there is one.
func describe(ctx context.Context, slice Slice) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	var links tracing.Links
	for i := range slice.Records {
		links.Add(slice.Records[i].Events[0].TraceParent) // all events of a message come from one request
	}
	links.AddTo(span)
	span.SetAttributes(tracing.FirstSeq.Int64(int64(slice.First)), tracing.LastSeq.Int64(int64(slice.Last)),
		tracing.Messages.Int(len(slice.Records)))
}

// measure counts the applied slices and the time that each took.
func (m *metrics) measure(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		start := time.Now()
		out, err := next(msg)
		if err == nil {
			m.apply.Observe(time.Since(start).Seconds())
			m.slices.Inc()
		}
		return out, err
	}
}

// limit bounds the time for a slice. If the projector is stopped, the slice still gets
// the drain timeout.
func (r *Runner) limit(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(msg.Context()), applyTimeout)
		defer cancel()
		stop := context.AfterFunc(msg.Context(), func() { time.AfterFunc(r.cfg.DrainTimeout, cancel) })
		defer stop()
		msg.SetContext(ctx)
		return next(msg)
	}
}
