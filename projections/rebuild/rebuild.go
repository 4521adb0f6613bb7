// Package rebuild makes the read models again from the log, beside the live ones, and
// then replaces the live ones. Reads and writes continue meanwhile.
//
//	lock ─> discard leftovers ─> create ─> replay ─> compare ─> a difference: stop, unless forced
//	                                                    v
//	                     drop old <─ swap <─ catch up <─┘
//
// # The replay
//
// One connection fills the new schema, slice after slice, as a projector does.
//
// # The swap
//
// One transaction first locks the live checkpoint. The lock waits for the slices that
// projectors are writing, and then holds the projectors back. Now the live position can't
// move. The rebuild brings the new tables to exactly that position, renames the schemas, and
// commits. The transaction takes a few hundredths of a second.
//
//   - Projectors: a projector's waiting transaction finds a checkpoint of another
//     generation and fails as a whole, as if a second projector had overtaken it. The
//     projector starts again from the new checkpoint. In a transaction that begins later,
//     all names mean the new tables. No transaction can write to both.
//   - Readers: a query reads the tables that its names meant when it began. Both the old
//     and the new tables hold everything up to the position, so a fence that was passed
//     before is still passed. PostgreSQL plans prepared statements again, because
//     search_path now names another schema. The columns have the same types, so no client
//     notices.
//   - Transactions of several queries use schema.Snapshot, which begins again if names
//     change their meaning in between.
//   - Fences are notified, find another generation in the checkpoint, and let caches drop
//     their data from the old tables. Each fence shares a lock of the generation that it
//     trusts. The rebuild reports the new tables as live once no fence holds the lock of
//     the old generation.
//   - The notification channel is named after the schema's name, which stays the same.
//
// # Interruptions
//
// The new schema is called <live>_rebuild until the swap, and the old one <live>_old after
// it. A comment on each marks it as made by a rebuild. A killed rebuild leaves one of
// them behind. The next rebuild discards that schema, because an unknown build filled it up
// to an unknown point. Nothing else is left, and the live tables are always one complete
// set.
package rebuild

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/schema"
)

var (
	// ErrDifferent: the rebuilt tables differ from the live ones. Nothing was swapped.
	ErrDifferent = errors.New("the rebuilt read models differ from the live ones")
	// ErrRunning: another rebuild works on these read models.
	ErrRunning = errors.New("another rebuild is under way")
	// ErrForeign: a schema with a name that a rebuild needs was not made by a rebuild.
	ErrForeign = errors.New("a schema that is not ours is in the way")
	// ErrMigrated: the live schema and the rebuilt one have different versions.
	ErrMigrated = errors.New("the live schema is of another version than this build")
)

// Config of a rebuild. Pool and Log are required.
type Config struct {
	Pool *pgxpool.Pool // its schema is the live one
	Log  audit.Log

	Force bool // swap despite differences
	// Patience is how long to wait for another rebuild to end; 0 means 10 s.
	Patience time.Duration

	Progress func(done, total uint64) // may be nil
	Say      func(string)             // receives the current step; may be nil
	Report   func(audit.Finding)      // may be nil
}

type Result struct {
	Position    uint64 // sequence up to which the new tables held the log at the swap
	Compared    uint64 // the same at the comparison
	Rows        uint64 // compared
	Differences uint64
	Held        time.Duration // how long the projectors were held back
	Swapped     bool
}

const comment = "memory-ledger: rebuild"

// Run rebuilds. After an error the live tables are unchanged, with two exceptions. If
// Result.Swapped is true, the new tables are live, and only the old tables may be left over.
// The same may be so if the answer to the swap's commit was lost. Running again is safe.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg.Patience = cmp.Or(cfg.Patience, 10*time.Second)
	r := &rebuild{cfg: cfg, live: schema.Name(cfg.Pool)}
	r.fresh, r.old = r.live+"_rebuild", r.live+"_old"
	defer r.close()
	if err := r.run(ctx); err != nil {
		return r.result, fmt.Errorf("rebuild: %w", err)
	}
	return r.result, nil
}

type rebuild struct {
	cfg              Config
	live, fresh, old string
	result           Result

	control  *pgx.Conn // holds the locks, and runs the statements that concern both schemas
	replayer *projector.Replayer
}

func (r *rebuild) run(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	if err := r.replace(ctx); err != nil {
		if r.control.IsClosed() {
			return err // the next rebuild drops what this one made
		}
		// Half-filled tables would keep the room that the live ones need on a full disk.
		if r.replayer != nil {
			schema.Disconnect(r.replayer.Conn)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second) // Ctrl-C ended ctx
		defer cancel()
		return errors.Join(err, r.discard(ctx, r.fresh))
	}
	r.say("dropping the old tables")
	return r.discard(ctx, r.old, r.fresh)
}

// replace makes the new tables and swaps them in.
func (r *rebuild) replace(ctx context.Context) error {
	if err := r.create(ctx); err != nil {
		return err
	}
	if err := r.fill(ctx); err != nil {
		return err
	}
	if err := r.compare(ctx); err != nil {
		return err
	}
	if r.result.Differences > 0 && !r.cfg.Force {
		return ErrDifferent
	}
	return r.swapIn(ctx)
}

func tables() []string {
	var tables []string
	for _, p := range readmodel.All() {
		tables = append(tables, p.Tables()...)
	}
	return tables
}

func (r *rebuild) say(format string, args ...any) {
	if r.cfg.Say != nil {
		r.cfg.Say(fmt.Sprintf(format, args...))
	}
}

// connect opens a connection that sees the given schemas.
func (r *rebuild) connect(ctx context.Context, searchPath string) (*pgx.Conn, error) {
	cfg := r.cfg.Pool.Config().ConnConfig.Copy()
	cfg.RuntimeParams["application_name"] = "memory-ledger rebuild"
	cfg.RuntimeParams["search_path"] = searchPath
	cfg.RuntimeParams["idle_in_transaction_session_timeout"] = "0"
	cfg.RuntimeParams["enable_seqscan"] = "on" // whole tables are compared, by several workers
	if searchPath != r.live {
		// Until the swap, no reader depends on these rows; see swap.
		cfg.RuntimeParams["synchronous_commit"] = "off"
	}
	schema.KeepLonger(cfg)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	return conn, nil
}

func (r *rebuild) close() {
	if r.control != nil {
		schema.Disconnect(r.control) // releases the locks
	}
	if r.replayer != nil {
		schema.Disconnect(r.replayer.Conn)
	}
}

// begin takes the lock, which lasts as long as the connection, and drops the schemas of
// an interrupted rebuild.
func (r *rebuild) begin(ctx context.Context) error {
	if err := schema.Migrate(ctx, r.cfg.Pool); err != nil {
		return err
	}
	var err error
	if r.control, err = r.connect(ctx, r.live); err != nil {
		return err
	}
	if err := r.lock(ctx); err != nil {
		return err
	}
	return r.discard(ctx, r.fresh, r.old)
}

// lock waits up to Patience for another rebuild. An interrupted rebuild ends with its
// connection, but the server may take a moment to notice.
func (r *rebuild) lock(ctx context.Context) error {
	err := r.advisoryLock(ctx, schema.LockKey("rebuild", r.live), r.cfg.Patience)
	if inUse(err) {
		return ErrRunning
	}
	return err
}

// advisoryLock waits for a lock of the session. After patience it returns an error that
// inUse matches.
func (r *rebuild) advisoryLock(ctx context.Context, key int64, patience time.Duration) error {
	// Both statements are one implicit transaction. A timeout of 0 would wait forever.
	_, err := r.control.Exec(ctx, fmt.Sprintf(`SET LOCAL lock_timeout = %d; SELECT pg_advisory_lock(%d)`, max(1, patience.Milliseconds()), key))
	return err
}

// discard drops schemas that a rebuild made, if they exist.
func (r *rebuild) discard(ctx context.Context, names ...string) error {
	for _, name := range names {
		var said *string
		err := r.control.QueryRow(ctx, `SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = $1`, name).Scan(&said)
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		if said == nil || *said != comment {
			return fmt.Errorf("%w: %s", ErrForeign, name)
		}
		for err = r.drop(ctx, name); inUse(err); err = r.drop(ctx, name) {
			if err := r.giveWay(ctx); err != nil {
				return err
			}
		}
		if err != nil {
			return fmt.Errorf("drop schema %s: %w", name, err)
		}
	}
	return nil
}

// drop drops a schema, unless its tables are in use. A reader that began before a swap
// may hold one table and still need another. If the drop and the reader wait for each
// other, the drop gives way.
func (r *rebuild) drop(ctx context.Context, name string) error {
	return pgx.BeginFunc(ctx, r.control, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SET LOCAL lock_timeout = '`+swapLockTimeout+`'; DROP SCHEMA `+name+` CASCADE`)
		return err
	})
}

// create makes the new schema.
func (r *rebuild) create(ctx context.Context) error {
	if _, err := r.control.Exec(ctx, `BEGIN; CREATE SCHEMA `+r.fresh+`; COMMENT ON SCHEMA `+r.fresh+` IS '`+comment+`'; COMMIT`); err != nil {
		return fmt.Errorf("create schema %s: %w", r.fresh, err)
	}
	pool, err := schema.OpenPool(ctx, r.cfg.Pool.Config().ConnString(), r.fresh, 1)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := schema.Migrate(ctx, pool); err != nil {
		return err
	}
	conn, err := r.connect(ctx, r.fresh)
	if err != nil {
		return err
	}
	if r.replayer, err = projector.NewReplayer(ctx, conn, r.cfg.Log, readmodel.All()); err != nil {
		schema.Disconnect(conn)
	}
	return err
}

// fill replays the log up to the position of the live tables.
func (r *rebuild) fill(ctx context.Context) error {
	target, err := r.target(ctx)
	if err != nil {
		return err
	}
	r.say("replaying %d messages into schema %s", target, r.fresh)
	if err := r.bulk(ctx, target); err != nil {
		return err
	}
	for { // until the new tables are so near that the swap can begin
		if target, err = r.target(ctx); err != nil || r.replayer.At()+200 >= target {
			return err
		}
		if err := r.replayer.To(ctx, target); err != nil {
			return err
		}
	}
}

// bulk replays the log up to a position, and makes statistics from time to time. Without
// new statistics PostgreSQL would keep plans for empty tables.
func (r *rebuild) bulk(ctx context.Context, target uint64) error {
	r.replayer.Applied = func(seq uint64) {
		if r.cfg.Progress != nil {
			r.cfg.Progress(seq, max(target, seq))
		}
	}
	for next := uint64(10_000); next < target; next *= 8 {
		if err := r.replayer.To(ctx, next); err != nil {
			return err
		}
		if err := r.analyse(ctx); err != nil {
			return err
		}
	}
	if err := r.replayer.To(ctx, target); err != nil {
		return err
	}
	return r.analyse(ctx)
}

// position returns the checkpoint of the live tables, as a connection or a transaction
// reads it. If it can't be used, or is beyond the log, its sequence is the end of the log,
// and wrong says why.
func (r *rebuild) position(ctx context.Context, live beginner) (at projector.Checkpoint, wrong string, err error) {
	// A nested transaction keeps the outer one usable if the checkpoint is damaged.
	err = pgx.BeginFunc(ctx, live, func(tx pgx.Tx) (err error) {
		at, err = projector.ReadCheckpoint(ctx, tx)
		return err
	})
	if err != nil && !unusable(err) {
		return at, "", err
	}
	if err != nil {
		wrong = unreadable(err)
	}
	// Read the head after the checkpoint: by then the log had everything that the tables
	// hold.
	head, err := eventlog.HeadHolding(ctx, r.cfg.Log, at.Seq)
	if wrong == "" && at.Seq > head {
		wrong = fmt.Sprintf("it is at %d", at.Seq)
	}
	if wrong != "" {
		at.Seq = head
	}
	return at, wrong, err
}

type beginner interface {
	Begin(context.Context) (pgx.Tx, error)
}

// target returns the sequence of the live tables' position.
func (r *rebuild) target(ctx context.Context) (uint64, error) {
	at, _, err := r.position(ctx, r.control)
	return at.Seq, err
}

func (r *rebuild) analyse(ctx context.Context) error {
	for _, name := range tables() {
		if _, err := r.control.Exec(ctx, `ANALYZE `+r.fresh+`.`+name); err != nil {
			return fmt.Errorf("analyse: %w", err)
		}
	}
	return nil
}
