package schema

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

// In each file, all that goes up is one statement, and all that goes down another: goose
// looks for the end of a statement with a buffer of 4 MB for each line.
//
//go:embed migrations/*.sql
var migrations embed.FS

// ErrEncoding means that the database does not store texts as UTF-8.
var ErrEncoding = errors.New("the database's encoding is not UTF8")

// ErrNewer means that a newer build has migrated the tables. This build would read them
// in their old form, or leave out the new parts.
var ErrNewer = errors.New("the tables are newer than this program")

// Migrate creates the schema of a pool if it does not exist, and migrates its tables to the
// version that this build knows. It returns ErrNewer if the tables have a newer version. If
// there is nothing to do, it needs only the right to read. Any number of processes can call
// Migrate at once: one process migrates, and the others wait and find nothing left to do.
// A migration that writes rows can take long; the end of ctx stops it. Each migration is
// its own transaction, so a crash or the end of ctx leaves only complete migrations
// behind. The next call continues from there.
func Migrate(ctx context.Context, pool *pgxpool.Pool) error {
	if err := checkEncoding(ctx, pool); err != nil {
		return err
	}
	old, err := isOld(ctx, pool)
	if err == nil && old {
		err = up(ctx, pool)
	}
	if err != nil {
		return fmt.Errorf("migrate %s: %w", Name(pool), mayNot(err))
	}
	return Known(ctx, pool)
}

// up creates the schema, and runs the migrations that its tables lack.
func up(ctx context.Context, pool *pgxpool.Pool) error {
	borrowed, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	// The lock ends with its connection: a crash releases it.
	conn := borrowed.Hijack()
	defer Disconnect(conn)
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, LockKey("migrate", Name(pool))); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	// CREATE SCHEMA IF NOT EXISTS needs the right to create schemas even if the schema exists.
	var there bool
	err = conn.QueryRow(ctx, `SELECT to_regnamespace($1) IS NOT NULL`, Name(pool)).Scan(&there)
	if err == nil && !there {
		_, err = conn.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{Name(pool)}.Sanitize())
	}
	if err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	provider, err := newProvider(db)
	if err == nil {
		_, err = provider.Up(ctx)
	}
	return err
}

// mayNot adds advice to an error about missing rights: a projector whose role has the
// rights must start first.
func mayNot(err error) error {
	var refused *pgconn.PgError
	const insufficientPrivilege = "42501"
	if errors.As(err, &refused) && refused.Code == insufficientPrivilege {
		return fmt.Errorf("this role may not create tables: start the projector first: %w", err)
	}
	return err
}

// isOld reports whether there is something to migrate. Most starts find nothing, and do
// not have goose parse all migrations, with 4 MB for each.
func isOld(ctx context.Context, q Querier) (bool, error) {
	var there bool
	if err := q.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&there); err != nil || !there {
		return true, err
	}
	is, known, err := versions(ctx, q)
	return is < known, err
}

// Known returns ErrNewer if a newer build has migrated the tables.
func Known(ctx context.Context, q Querier) error {
	is, known, err := versions(ctx, q)
	if err == nil && is > known {
		err = fmt.Errorf("%w: they are at version %d, it knows %d; run a program that knows them", ErrNewer, is, known)
	}
	return err
}

// versions returns the version of the tables and the one that this build knows.
func versions(ctx context.Context, q Querier) (is, known int64, err error) {
	if known, err = newest(); err != nil {
		return 0, 0, err
	}
	if err = q.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&is); err != nil {
		return 0, 0, fmt.Errorf("look up the version of the tables: %w", err)
	}
	return is, known, nil
}

// newest is the version of the last migration of this build.
var newest = sync.OnceValues(func() (int64, error) {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return 0, err
	}
	return goose.NumericComponent(files[len(files)-1].Name()) // sorted by name
})

func newProvider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
}

func checkEncoding(ctx context.Context, q Querier) error {
	var encoding string
	if err := q.QueryRow(ctx, `SHOW server_encoding`).Scan(&encoding); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w but %s; create it with ENCODING 'UTF8'", ErrEncoding, encoding)
	}
	return nil
}

// GenerationKey returns the key of the lock that a fence holds shared while it trusts the
// read models of a generation.
func GenerationKey(schemaName, generation string) int64 {
	return LockKey("generation/"+generation, schemaName)
}

func LockKey(purpose, schemaName string) int64 {
	sum := sha256.Sum256([]byte("memory-ledger/" + purpose + "/" + schemaName))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
