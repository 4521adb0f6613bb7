package fence

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Run listens to the projectors until ctx ends, and reconnects when the connection is
// lost.
func (f *Fence) Run(ctx context.Context) error {
	for {
		err := f.listen(ctx)
		f.known.lost()
		if ctx.Err() != nil {
			return nil
		}
		if connected := f.away.Swap(&err) == nil; connected {
			f.opts.Logger.Warn("the read models are not reached, trying again", "err", err)
		}
		if !eventlog.Pause(ctx, 50*time.Millisecond+rand.N(100*time.Millisecond)) {
			return nil
		}
	}
}

// listen connects and follows the projectors' announcements. It reads the checkpoint
// after the connection listens, so that it misses no commit in between. It reads the
// checkpoint again from time to time, to detect a lost announcement or a restored
// database.
func (f *Fence) listen(ctx context.Context) error {
	conn, err := f.connect(ctx)
	if err != nil {
		return err
	}
	defer schema.Disconnect(conn)
	var held string // the generation whose lock this connection holds
	for {
		if err := f.read(ctx, conn, &held); err != nil {
			return err
		}
		if err := f.follow(ctx, conn, time.Now().Add(f.opts.Poll)); err != nil {
			return err
		}
	}
}

// connect opens a connection that listens. It gives up on a server that accepts the
// connection and does not answer.
func (f *Fence) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, schema.LookTimeout)
	defer cancel()
	cfg := f.pool.Config().ConnConfig.Copy()
	cfg.RuntimeParams["application_name"] = "memory-ledger fence"
	schema.ForLocks(cfg)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if _, err := conn.Exec(ctx, `LISTEN `+pgx.Identifier{f.channel}.Sanitize()); err != nil {
		schema.Disconnect(conn)
		return nil, fmt.Errorf("listen: %w", err)
	}
	return conn, nil
}

// read stores the checkpoint, even if it went back, and checks that the log is long
// enough.
func (f *Fence) read(ctx context.Context, conn *pgx.Conn, held *string) error {
	ctx, cancel := context.WithTimeout(ctx, schema.LookTimeout)
	defer cancel()
	is, err := f.hold(ctx, conn, *held)
	if err != nil {
		return err
	}
	before := f.Position()
	exchanged, back := f.known.compare(is)
	if exchanged {
		// Call OnExchange before the new tables are announced, so that no reader of the
		// new tables finds cached data of the old ones.
		if f.opts.OnExchange != nil {
			f.opts.OnExchange()
		}
	}
	f.known.set(is, exchanged)
	if f.away.Swap(nil) != nil {
		f.opts.Logger.Info("the read models are reached again")
	}
	switch {
	case back:
		f.metrics.backward.Inc()
		f.opts.Logger.Warn("the read models went back: the checkpoint is read again", "was", before, "is", is.Seq)
	case exchanged:
		f.opts.Logger.Info("the read models were exchanged", "was", before, "is", is.Seq)
	}
	f.measure(ctx, is.Seq)
	was := *held
	if *held = is.Generation; was == "" || was == *held {
		return nil
	}
	return f.lock(ctx, conn, "pg_advisory_unlock_shared", was)
}

// hold reads the checkpoint and shares the lock of its generation, unless the connection
// already holds that lock. A rebuild that ends a generation waits for all holders of its
// lock.
func (f *Fence) hold(ctx context.Context, conn *pgx.Conn, held string) (is projector.Checkpoint, err error) {
	for locked := ""; ; locked = is.Generation {
		if is, err = projector.ReadCheckpoint(ctx, conn); err != nil || is.Generation == held || is.Generation == locked {
			return is, err
		}
		if locked != "" { // this generation ended meanwhile
			if err := f.lock(ctx, conn, "pg_advisory_unlock_shared", locked); err != nil {
				return is, err
			}
		}
		if err := f.lock(ctx, conn, "pg_advisory_lock_shared", is.Generation); err != nil {
			return is, err
		}
	}
}

func (f *Fence) lock(ctx context.Context, conn *pgx.Conn, function, generation string) error {
	_, err := conn.Exec(ctx, `SELECT `+function+`($1)`, schema.GenerationKey(schema.Name(f.pool), generation))
	if err != nil {
		return fmt.Errorf("lock of a generation: %w", err)
	}
	return nil
}

// measure checks that the log is at least as long as the read models' position. If the
// log does not answer, measure changes nothing.
func (f *Fence) measure(ctx context.Context, position uint64) {
	connection := f.opts.Connection()
	head, err := eventlog.HeadHolding(ctx, f.log, position)
	if err != nil {
		return
	}
	if short := lengthError(position, head); short != nil {
		if f.short.Swap(&short) == nil {
			f.opts.Logger.Error("reads and writes are refused", "err", short)
		}
		return
	}
	f.fits.Store(connection)
	if f.short.Swap(nil) != nil {
		f.opts.Logger.Info("reads and writes are answered again: the log fits the read models")
	}
}

// lengthError returns nil if a log that ends at head can be the source of read models
// that were already at position.
func lengthError(position, head uint64) error {
	if position <= head {
		return nil
	}
	return fmt.Errorf("%w: they are at sequence %d, the log ends at %d", ErrLogShort, position, head)
}

// follow processes announcements until the given time, or until one does not continue the
// known position.
func (f *Fence) follow(ctx context.Context, conn *pgx.Conn, until time.Time) error {
	for {
		wait, cancel := context.WithDeadline(ctx, until)
		note, err := conn.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return ctx.Err()
		case pgconn.Timeout(err) && !conn.IsClosed():
			return nil
		default:
			return fmt.Errorf("wait for the projector: %w", err)
		}
		generation, position, _ := strings.Cut(note.Payload, " ") // see schema.Channel
		seq, err := strconv.ParseUint(position, 10, 64)
		if err != nil || !f.known.advance(generation, seq) {
			return nil
		}
	}
}

// tracker holds the newest position that this process knows.
type tracker struct {
	mu      sync.Mutex
	at      projector.Checkpoint
	tables  atomic.Uint64 // see Head
	live    bool          // the listener is connected, so at can be trusted
	changed chan struct{} // closed by the next change; nil while no caller waits
}

// await reports that a sequence is projected, or returns a channel that is closed when the
// position changes. While the listener is down it returns neither.
func (t *tracker) await(seq uint64) (changed <-chan struct{}, reached bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.live || t.at.Seq >= seq {
		return nil, t.live
	}
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.changed, false
}

// wake wakes all who wait: they look again.
func (t *tracker) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// reached reports whether seq is known to be projected.
func (t *tracker) reached(seq uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live && t.at.Seq >= seq
}

// compare reports whether a checkpoint that the listener read belongs to other tables
// than the known one, and whether it is a step back.
func (t *tracker) compare(c projector.Checkpoint) (exchanged, back bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.Generation == "" {
		return false, false
	}
	back = c.Seq < t.at.Seq
	return back || c.Generation != t.at.Generation, back
}

// set stores a checkpoint that the listener read. exchanged is compare's result for it.
func (t *tracker) set(c projector.Checkpoint, exchanged bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if exchanged {
		t.tables.Add(1)
	}
	t.at, t.live = c, true
	t.wake()
}

// advance stores an announcement. It returns false if the announcement does not continue
// the known position: another generation, or a step back. Then the tracker stays as it
// is, and the listener reads the checkpoint.
func (t *tracker) advance(generation string, seq uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.live || generation != t.at.Generation || seq < t.at.Seq {
		return false
	}
	t.at.Seq = seq
	t.wake()
	return true
}

// lost notes that the listener is down.
func (t *tracker) lost() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.live = false
	t.wake()
}

// position returns the newest sequence that is known to be projected, and whether the
// listener is connected. The position is 0 before the listener first connected.
func (t *tracker) position() (seq uint64, live bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at.Seq, t.live
}
