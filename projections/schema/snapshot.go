package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// unswappedSQL tells whether the tables' names mean the same now as they did at the
// moment of the snapshot. to_regclass looks a name up as of now, as every query does
// for the tables it names; a query on the catalogue's own tables is answered from the
// snapshot.
const unswappedSQL = `SELECT count(*) > 0 AND bool_and(c.oid IS NOT DISTINCT FROM to_regclass(quote_ident(c.relname)))
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE n.nspname = current_schema() AND c.relkind = 'r'`

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
