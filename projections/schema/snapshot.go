package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tables are all tables of the read models and the checkpoint.
var tables = []string{
	"checkpoint", "owners", "sessions", "api_keys", "grants", "memories", "body_pages", "batches", "batch_attempts", "stake_movements", "tiles",
}

// unswappedSQL tells whether the tables' names mean the same now as they did at
// the moment of the snapshot. to_regclass looks a name up as of now, as every
// query does for the tables it names; a query on the catalogue's own tables is
// answered from the snapshot.
var unswappedSQL = `SELECT count(*) = ` + fmt.Sprint(len(tables)) + `
	FROM unnest(ARRAY['` + strings.Join(tables, `', '`) + `']) AS t (name)
	JOIN pg_class c ON c.relname = t.name AND c.oid = to_regclass(t.name)
	JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema()`

// Snapshot runs f in a read-only transaction that sees one moment of the read
// models, whatever the number of queries.
//
// Names are looked up as of now, rows are seen as of the snapshot: a rebuild that
// swaps tables in between would show them as they were before they were full.
// So f runs again where names have come to mean other tables since the moment
// of the snapshot; it must not do anything but read.
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
			if failed != nil { // by a query of its own: the transaction answers nothing more
				return failed
			}
			return fmt.Errorf("look up the tables: %w", err)
		}
		// What f made of rows from before and after a swap is no finding, good
		// or bad.
		if !unswapped {
			return errSwapped
		}
		return failed
	})
}
