// Package schema owns the tables of the read models: it creates them, and it opens pools
// that see them.
//
// A PostgreSQL schema holds one complete set of read models. The name of the live schema
// is [Live]; a rebuild fills a second schema beside it. No query names a schema: the pool
// sets search_path, so every query works in any of the schemas.
package schema

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events/dial"
)

// Live is the schema that the services read. Names of schemas are plain, because they become
// part of search_path and of statements.
const Live = "ledger"

// LocalSharedBuffers is the memory in which the PostgreSQL of a local run caches these
// tables. It is enough for the pages that a first search of 100,000 memories reads.
const LocalSharedBuffers = "256MB"

// Querier runs the queries of the read models. It is a pool, a connection, or a
// transaction if several reads must see one moment.
type Querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

var (
	_ Querier = (*pgxpool.Pool)(nil)
	_ Querier = (pgx.Tx)(nil)
	_ Querier = (*pgx.Conn)(nil)
)

// Damaged reports whether an error means that the database can't read its stored data:
// corrupted data (XX001), a corrupted index (XX002), or a missing or unreadable file
// (class 58). A rebuild makes the tables again.
func Damaged(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "XX001" || pg.Code == "XX002" || strings.HasPrefix(pg.Code, "58"))
}

// Disconnect closes a connection outside a pool. It waits for the server's answer for at
// most a second.
func Disconnect(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the connection is closed even after an error
}

// OpenPool opens a pool whose connections see the given schema: maxConns at most, unless the
// URL has pool_max_conns. It does not connect: if
// the database is down, the first query fails, and callers that can wait retry.
func OpenPool(ctx context.Context, databaseURL, schemaName string, maxConns int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	if !strings.Contains(databaseURL, "pool_max_conns") {
		cfg.MaxConns = maxConns
	}
	applyDefaults(&cfg.ConnConfig.Config, schemaName)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	return pool, nil
}

// applyDefaults sets the parameters of all our connections.
func applyDefaults(cfg *pgconn.Config, schemaName string) {
	set := func(name, value string) {
		if _, given := cfg.RuntimeParams[name]; !given {
			cfg.RuntimeParams[name] = value
		}
	}
	if cfg.ConnectTimeout == 0 {
		// This bounds the wait for a connection if the URL does not set connect_timeout. It
		// ends an attempt at a server that accepts the connection but does not answer.
		cfg.ConnectTimeout = 10 * time.Second
	}
	cfg.DialFunc = dial.Dialer().DialContext
	cfg.RuntimeParams["search_path"] = schemaName
	cfg.RuntimeParams["timezone"] = "UTC"
	set("application_name", "memory-ledger")
	// Compiling a plan takes longer than any of these queries.
	set("jit", "off")
	// Queries about an owner have an index. PostgreSQL may plan them once for all owners, and
	// if one owner has most rows of a table, such a plan reads the whole table for each other.
	set("enable_seqscan", "off")
	// The server looks after an idle session each second, from the fifth on, and ends the
	// session when it is silent for lockSilence.
	set("tcp_keepalives_idle", "5")
	set("tcp_keepalives_interval", "1")
	set("tcp_keepalives_count", "10")
}

// lockSilence is how long a machine may be silent before it loses the locks of its
// sessions.
const lockSilence = 15 * time.Second

// LookTimeout bounds operations that a healthy database finishes at once: trying the locks,
// answering a ping, one request of a fence. Without the bound, a silent database would block
// a standby, which reports itself ready, until the kernel gives up the connection.
const LookTimeout = 5 * time.Second

// ForLocks prepares a session that holds locks, for which other processes wait. The server
// also ends it if an answer is not acknowledged for lockSilence. So it is not for sessions
// that read large results slowly. This side keeps the session for as long: to give it up
// sooner would not free the locks.
func ForLocks(cfg *pgx.ConnConfig) {
	cfg.RuntimeParams["tcp_user_timeout"] = strconv.FormatInt(lockSilence.Milliseconds(), 10)
	KeepLonger(cfg)
}

// KeepLonger lets a session last while the server stops reading for a moment, as it does
// while its disk is busy. It is for sessions that send much.
func KeepLonger(cfg *pgx.ConnConfig) {
	connect := cfg.DialFunc
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := connect(ctx, network, address)
		if err == nil {
			err = dial.Extend(conn, lockSilence)
		}
		return conn, err
	}
}

// Name returns the schema that a pool was opened for.
func Name(pool *pgxpool.Pool) string {
	return pool.Config().ConnConfig.RuntimeParams["search_path"]
}

// Channel returns the notification channel on which the projector of a schema announces
// its position, as "<generation> <sequence>".
func Channel(schemaName string) string { return "position_" + schemaName }

// unswappedSQL reports whether the tables' names still mean the same tables as at the
// moment of the snapshot. to_regclass looks up a name as of now, as every query does for
// the tables that it names. But a query on the catalog tables sees the snapshot.
const unswappedSQL = `SELECT count(*) > 0 AND bool_and(c.oid IS NOT DISTINCT FROM to_regclass(quote_ident(c.relname)))
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = current_schema() AND c.relkind = 'r'`

// Snapshot runs f in a read-only transaction in which all queries see one moment of the
// read models.
//
// PostgreSQL looks up table names as of now, but returns rows as of the snapshot. If a
// rebuild swaps the tables in between, queries would see the new tables as they were
// before they were filled. So Snapshot runs f again if names mean other tables than at
// the moment of the snapshot. f must only read.
func Snapshot(ctx context.Context, pool *pgxpool.Pool, f func(pgx.Tx) error) error {
	for {
		err := snapshot(ctx, pool, f)
		if !errors.Is(err, errSwapped) {
			return err
		}
	}
}

var errSwapped = errors.New("the tables were swapped")

func snapshot(ctx context.Context, pool *pgxpool.Pool, f func(pgx.Tx) error) error {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) error {
		failed := f(tx)
		var unswapped bool
		if err := tx.QueryRow(ctx, unswappedSQL).Scan(&unswapped); err != nil {
			if failed != nil { // f's own query failed, so the transaction accepts no more queries
				return failed
			}
			return fmt.Errorf("look up the tables: %w", err)
		}
		// f may have mixed rows from before and after a swap, so its result and its
		// error mean nothing.
		if !unswapped {
			return errSwapped
		}
		return failed
	})
}
