// Package schema owns the tables of the read models: it creates them, and it
// opens pools that see them.
//
// A schema of PostgreSQL holds one complete set of read models. The live one
// is called [Live]; a rebuild fills another beside it. No query names a
// schema: the pool sets search_path, and so every query works in any of them.
package schema

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Live is the schema that the services read.
const Live = "ledger"

// LocalSharedBuffers is what the PostgreSQL of a local run keeps of these tables
// in memory: enough for the pages that a first search of 100,000 memories reads.
const LocalSharedBuffers = "256MB"

// ErrName says that a text can't be the name of a schema of ours.
var ErrName = errors.New("not a schema name")

// Names are short because they become part of the notification channel, and
// plain because they become part of search_path.
var namePattern = regexp.MustCompile(`^[a-z][a-z0-9_]{0,39}$`)

func checkName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%w: %q", ErrName, name)
	}
	return nil
}

// Querier is what the queries of the read models run on: a pool, or a
// transaction where several reads must see one moment.
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

// Damaged reports whether an error says that the database can't read what it has
// stored: data (XX001) or an index (XX002) that is corrupted, or a file that is gone or
// not readable (class 58). A rebuild makes it again.
func Damaged(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "XX001" || pg.Code == "XX002" || strings.HasPrefix(pg.Code, "58"))
}

// Disconnect closes a connection outside a pool. A server that does not answer
// is given up after a second.
func Disconnect(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // whatever it says, the connection is gone
}

// OpenPool opens a pool whose connections see the given schema. It does not
// connect: a database that is down is found out by the first query, and
// waited out by those who can wait.
func OpenPool(ctx context.Context, databaseURL, schemaName string, maxConns int32) (*pgxpool.Pool, error) {
	if err := checkName(schemaName); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	if maxConns > 0 {
		cfg.MaxConns = maxConns
	}
	applyDefaults(&cfg.ConnConfig.Config, schemaName)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	return pool, nil
}

// connectTimeout bounds how long a connection is waited for where the URL does not
// say (connect_timeout): a server that takes it and says nothing is given up.
const connectTimeout = 10 * time.Second

// applyDefaults sets what every connection of ours runs with.
func applyDefaults(cfg *pgconn.Config, schemaName string) {
	set := func(name, value string) {
		if _, given := cfg.RuntimeParams[name]; !given {
			cfg.RuntimeParams[name] = value
		}
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	cfg.RuntimeParams["search_path"] = schemaName
	cfg.RuntimeParams["timezone"] = "UTC"
	set("application_name", "memory-ledger")
	// Compiling a plan costs more than any of these queries takes.
	set("jit", "off")
}

// Name returns the schema that a pool was opened for.
func Name(pool *pgxpool.Pool) string {
	return pool.Config().ConnConfig.RuntimeParams["search_path"]
}

// Channel is the notification channel on which the projector of a schema
// announces its position, as "<generation> <first>-<last> <sequence>": first and
// last are the partitions of a row of the checkpoint, in hex.
func Channel(schemaName string) string { return "position_" + schemaName }
