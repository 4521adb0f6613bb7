package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
)

// at migrates a schema up or down to a version, and returns a connection to it.
func at(t *testing.T, url string, version int64) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	applyDefaults(&cfg.Config, Live)
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), `CREATE SCHEMA IF NOT EXISTS ledger`); err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	if err := toVersion(t.Context(), db, version); err != nil {
		t.Fatal(err)
	}
	return conn
}

func toVersion(ctx context.Context, db *sql.DB, version int64) error {
	provider, err := newProvider(db)
	if err != nil {
		return err
	}
	now, err := provider.GetDBVersion(ctx)
	if err != nil {
		return err
	}
	if now > version {
		_, err = provider.DownTo(ctx, version)
	} else {
		_, err = provider.UpTo(ctx, version)
	}
	return err
}

const (
	versionOneRow     = 1
	versionPartitions = 2
	versionPages      = 3
)

// TestTheCheckpointOfOneRowBecomesThatOfAllPartitions: the migration keeps position, time
// and generation, and the older build can no longer move the checkpoint.
func TestTheCheckpointOfOneRowBecomesThatOfAllPartitions(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), pgtest.Database(t)
	conn := at(t, url, versionOneRow)
	const move = `SELECT advance_checkpoint($1, $2, '2026-01-02T03:04:05.678901Z')`
	if _, err := conn.Exec(ctx, move, 0, 50); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, `INSERT INTO owners VALUES ('somebody', NULL, NULL, 1, 50, 0, 0, 0)`); err != nil {
		t.Fatal(err)
	}
	type row struct {
		generation, stored string
		seq                int64
	}
	read := func(more string) (r row) {
		t.Helper()
		if err := conn.QueryRow(ctx, `SELECT generation::text, stored_at::text, seq FROM checkpoint `+more).Scan(&r.generation, &r.stored, &r.seq); err != nil {
			t.Fatal(err)
		}
		return r
	}
	before := read("")
	if err := Migrate(ctx, url, Live); err != nil {
		t.Fatal(err)
	}
	if after := read("WHERE first_partition = 0 AND last_partition = 255"); after != before || after.seq != 50 {
		t.Errorf("%+v became %+v", before, after)
	}
	// The older build prepared its statement before the migration.
	var pg *pgconn.PgError
	if _, err := conn.Exec(ctx, move, 50, 60); !errors.As(err, &pg) || pg.Code != "42883" {
		t.Errorf("a build from before moved the checkpoint: %v", err)
	}
	var owners int
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM owners`).Scan(&owners); err != nil || owners != 1 || read("").seq != 50 {
		t.Errorf("%d owners, %v, %+v", owners, err, read(""))
	}
	at(t, url, versionOneRow)
	if _, err := conn.Exec(ctx, move, 50, 60); err != nil {
		t.Errorf("back again: %v", err)
	}
	if got := read("WHERE single"); got.seq != 60 || got.generation != before.generation {
		t.Errorf("back again: %+v", got)
	}
}

// TestTheCheckpointSpeaksOfEveryPartitionOnce: a transaction fails, at the latest when it
// commits, unless the checkpoint's rows cover every partition exactly once.
func TestTheCheckpointSpeaksOfEveryPartitionOnce(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	conn := at(t, pgtest.Database(t), versionPartitions)
	const integrity = "23" // the class of the error
	row := func(first, last string) string {
		return `INSERT INTO checkpoint (generation, seq, first_partition, last_partition) SELECT generation, 7, ` + first + `, ` + last + ` FROM checkpoint LIMIT 1`
	}
	for name, statements := range map[string][]string{
		"none":                 {`DELETE FROM checkpoint`},
		"one is missing":       {`UPDATE checkpoint SET last_partition = 254`},
		"one in the middle":    {`UPDATE checkpoint SET last_partition = 127`, row("129", "255")},
		"one twice":            {`UPDATE checkpoint SET last_partition = 127`, row("127", "255")},
		"one for another":      {`UPDATE checkpoint SET last_partition = 127`, row("127", "254")},
		"all twice":            {row("0", "255")},
		"one too many":         {row("256", "256")},
		"before the first":     {`UPDATE checkpoint SET first_partition = -1`},
		"a run of none":        {row("9", "8")},
		"two generations":      {`UPDATE checkpoint SET last_partition = 127`, row("128", "255"), `UPDATE checkpoint SET generation = gen_random_uuid() WHERE seq = 7`},
		"before the beginning": {`UPDATE checkpoint SET seq = -1`},
	} {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, statement := range statements {
				if _, err := tx.Exec(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		})
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code[:2] != integrity {
			t.Errorf("%s: %v", name, err)
		}
	}
	var rows, covered int
	good := []string{`UPDATE checkpoint SET last_partition = 127`, row("128", "255")}
	if err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for _, statement := range good {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Errorf("two halves: %v", err)
	}
	if err := conn.QueryRow(ctx, `SELECT count(*), sum(last_partition - first_partition + 1) FROM checkpoint`).Scan(&rows, &covered); err != nil || rows != 2 || covered != 256 {
		t.Errorf("%d rows of %d partitions, %v", rows, covered, err)
	}
}

// TestRowsArePutInThePlaceOfOthers: recut_checkpoint replaces rows only if they still have
// the partitions, generation and sequences that the caller names.
func TestRowsArePutInThePlaceOfOthers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	conn := at(t, pgtest.Database(t), versionPartitions)
	const halves = `SELECT recut_checkpoint(generation, '{0}', '{255}', '{0}', '{0,128}', '{127,255}', '{5,9}', ARRAY[now(), NULL]) FROM checkpoint LIMIT 1`
	const quarter = `SELECT recut_checkpoint(generation, '{0,128}', '{127,255}', '{5,%d}', '{0,64}', '{63,255}', '{9,9}', '{NULL,NULL}') FROM checkpoint LIMIT 1`
	const mine = `SELECT recut_checkpoint(gen_random_uuid(), '{0,128}', '{127,255}', '{5,9}', '{0}', '{255}', '{9}', '{NULL}')`
	fenced := func(name, sql string) {
		t.Helper()
		var pg *pgconn.PgError
		if _, err := conn.Exec(ctx, sql); !errors.As(err, &pg) || pg.Code != "ML001" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := conn.Exec(ctx, halves); err != nil {
		t.Fatal(err)
	}
	fenced("twice", halves)
	fenced("of other tables", mine)
	fenced("at another sequence", fmt.Sprintf(quarter, 8))
	fenced("one row where there are two", `SELECT advance_checkpoint(generation, 0, 255, 5, 9, now()) FROM checkpoint LIMIT 1`)
	fenced("a row of other tables", `SELECT advance_checkpoint(gen_random_uuid(), 0, 127, 5, 9, now())`)
	if _, err := conn.Exec(ctx, fmt.Sprintf(quarter, 9)); err != nil {
		t.Error(err)
	}
	if _, err := conn.Exec(ctx, `SELECT advance_checkpoint(generation, 64, 255, 9, 10, now()) FROM checkpoint LIMIT 1`); err != nil {
		t.Error(err)
	}
	var rows string
	if err := conn.QueryRow(ctx, `SELECT string_agg(first_partition || '-' || last_partition || ':' || seq, ' ' ORDER BY first_partition) FROM checkpoint`).Scan(&rows); err != nil || rows != "0-63:9 64-255:10" {
		t.Errorf("%s, %v", rows, err)
	}
}

// TestOwnersComeApartFromTheirMemories: the migration turns an older build's rows into the
// rows that a replay makes. The down migration restores the old rows.
func TestOwnersComeApartFromTheirMemories(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), pgtest.Database(t)
	conn := at(t, url, versionPages)
	for _, statement := range []string{
		// The newest messages: of the first owner two leaves, of the second a session. The
		// third is known only from the chain.
		`INSERT INTO owners VALUES ('leaf', gen_random_uuid(), now(), 3, 30, 2, 0, 0), ('session', gen_random_uuid(), now(), 4, 31, 1, 2, 29), ('chain', NULL, NULL, 0, 0, 0, 1, 5)`,
		`INSERT INTO memories (owner, leaf_index, id, leaf_hash, metadata, sealed, created_at, seq)
			SELECT owner, leaf, gen_random_uuid(), '\x00', '{}', '\x00', now(), seq FROM (VALUES ('leaf', 0, 20), ('leaf', 1, 30), ('session', 0, 21)) AS m (owner, leaf, seq)`,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	read := func(columns string) (rows string) {
		t.Helper()
		if err := conn.QueryRow(ctx, `SELECT string_agg(concat_ws(' ', owner, `+columns+`, chain_version, chain_last_seq), ', ' ORDER BY owner) FROM owners`).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	const before = `version, last_seq, leaf_count`
	was := read(before)
	if err := Migrate(ctx, url, Live); err != nil {
		t.Fatal(err)
	}
	if got, want := read(`others, coalesce(last_seq::text, 'none')`), "chain 0 none 1 5, leaf 1 none 0 0, session 3 31 2 29"; got != want {
		t.Errorf("after the migration %q, want %q", got, want)
	}
	at(t, url, versionPages)
	if got := read(before); got != was {
		t.Errorf("back again: %q was %q", got, was)
	}
	if _, err := conn.Exec(ctx, `UPDATE owners SET leaf_count = -1`); err == nil {
		t.Error("back again, nothing says that leaves continue")
	}
}
