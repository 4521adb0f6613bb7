package column

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/projections/schema"
)

// One returns the row of a query for a single row. Error texts begin with the argument what.
func One[T any](row pgx.Row, what string, scan func(pgx.Row) (T, error)) (found T, ok bool, err error) {
	found, err = scan(row)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return found, false, nil
	case err != nil:
		return found, false, fmt.Errorf("%s: %w", what, err)
	}
	return found, true, nil
}

// All returns the rows of a query. Error texts begin with the argument what.
func All[T any](ctx context.Context, q schema.Querier, what string, scan func(pgx.Row) (T, error), sql string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, sql, args...)
	if err == nil {
		var all []T
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (T, error) { return scan(row) })
		if err == nil {
			return all, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", what, err)
}

// Value reads a row of one column.
func Value[T any](row pgx.Row) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}
