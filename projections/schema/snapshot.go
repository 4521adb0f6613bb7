package schema

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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
