package bodypages

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Load calls yield with the owner's pages from page from (inclusive) to page to
// (exclusive), in order, as they arrive. It skips pages that are not in the table. If
// yield returns an error, Load stops and returns it. The connection is busy until Load
// returns.
//
// Errors: ErrFormat for a damaged page.
func Load(ctx context.Context, q schema.Querier, owner events.Owner, from, to uint64, yield func(Page) error) error {
	rows, err := q.Query(ctx, `SELECT page, bodies FROM body_pages WHERE owner = $1 AND page >= $2 AND page < $3 ORDER BY page`,
		pgx.QueryResultFormats{pgx.BinaryFormatCode}, string(owner), int64(from), int64(to))
	if err != nil {
		return fmt.Errorf("load pages: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var (
			number int64
			data   []byte // Scan copies the value
		)
		if err := rows.Scan(&number, &data); err != nil {
			return fmt.Errorf("load pages: %w", err)
		}
		page, err := Parse(data, uint64(number)*Leaves)
		if err != nil {
			return fmt.Errorf("page %d of %s: %w", number, owner, err)
		}
		if err := yield(page); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("load pages: %w", err)
	}
	return nil
}
