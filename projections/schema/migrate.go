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
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrEncoding says that the database does not store texts as UTF-8.
var ErrEncoding = errors.New("the database's encoding is not UTF8")

// ErrNewer says that a newer build has migrated the tables: this one would read
// them as they were, or leave out what is new in them.
var ErrNewer = errors.New("the tables are newer than this program")

// Migrate creates the schema if there is none and brings its tables to the
// version that this build knows; tables that are beyond it are ErrNewer. Where
// there is nothing to do it needs no rights but to read. Any number of processes
// may call it at once: one works, the others wait and find nothing left to do. That
// may take long, where a migration writes rows; ctx ends it. A crash on the way, as
// the end of ctx, leaves whole migrations behind, each of which is a transaction of
// its own; the next call goes on from there.
func Migrate(ctx context.Context, databaseURL, schemaName string) error {
	if err := checkName(schemaName); err != nil {
		return err
	}
	cfg, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return fmt.Errorf("database URL: %w", err)
	}
	applyDefaults(&cfg.Config, schemaName)
	// The lock lives as long as its connection: a crash releases it.
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("migrate %s: %w", schemaName, err)
	}
	defer Disconnect(conn)
	if err := checkEncoding(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, LockKey("migrate", schemaName)); err != nil {
		return fmt.Errorf("migrate %s: lock: %w", schemaName, err)
	}
	if err := create(ctx, conn, schemaName); err != nil {
		return fmt.Errorf("create schema %s: %w", schemaName, err)
	}
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	provider, err := newProvider(db)
	if err == nil {
		_, err = provider.Up(ctx) // says nothing of versions that it does not know
	}
	if err != nil {
		return fmt.Errorf("migrate %s: %w", schemaName, mayNot(err))
	}
	return Known(ctx, conn)
}

// create makes the schema where there is none: to ask for it in vain takes the
// right to create schemas, too.
func create(ctx context.Context, conn *pgx.Conn, schemaName string) error {
	var there bool
	if err := conn.QueryRow(ctx, `SELECT to_regnamespace($1) IS NOT NULL`, schemaName).Scan(&there); err != nil || there {
		return err
	}
	_, err := conn.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{schemaName}.Sanitize())
	return mayNot(err)
}

// mayNot says who may do what this role may not.
func mayNot(err error) error {
	var refused *pgconn.PgError
	const insufficientPrivilege = "42501"
	if errors.As(err, &refused) && refused.Code == insufficientPrivilege {
		return fmt.Errorf("this role may not; a projector whose role may has to start first: %w", err)
	}
	return err
}

// Known returns ErrNewer where a newer build has migrated the tables.
func Known(ctx context.Context, q Querier) error {
	known, err := newest()
	if err != nil {
		return err
	}
	var is int64
	if err := q.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version`).Scan(&is); err != nil {
		return fmt.Errorf("look up the version of the tables: %w", err)
	}
	if is > known {
		return fmt.Errorf("%w: they are at version %d, it knows %d; run a program that knows them", ErrNewer, is, known)
	}
	return nil
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

func checkEncoding(ctx context.Context, conn *pgx.Conn) error {
	var encoding string
	if err := conn.QueryRow(ctx, `SHOW server_encoding`).Scan(&encoding); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if encoding != "UTF8" {
		return fmt.Errorf("%w but %s; create it with ENCODING 'UTF8'", ErrEncoding, encoding)
	}
	return nil
}

// GenerationKey is the key of the lock that a fence shares while it believes in the
// read models of a generation.
func GenerationKey(schemaName, generation string) int64 {
	return LockKey("generation/"+generation, schemaName)
}

// LockKey is the key of an advisory lock for a purpose in a schema.
func LockKey(purpose, schemaName string) int64 {
	sum := sha256.Sum256([]byte("memory-ledger/" + purpose + "/" + schemaName))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
