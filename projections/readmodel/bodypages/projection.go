package bodypages

import (
	"context"
	"fmt"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection writes the pages that a slice fills. It reads the leaves from the memories
// table, so it must run after the memories projection.
type Projection struct{}

var _ projector.Projection = Projection{}

// Name implements projector.Projection.
func (Projection) Name() string { return "bodypages" }

// Tables implements projector.Projection.
func (Projection) Tables() []string { return []string{"body_pages"} }

// Apply implements projector.Projection. One write of an owner in 256 fills a page; a
// slice that fills no page writes nothing. A crash never separates a page from its
// leaves, because both are written in one transaction.
func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	var (
		owners []string
		pages  []int64
	)
	for _, e := range s.Events() {
		if data, ok := e.Data.(*events.MemoryWritten); ok && data.LeafIndex%Leaves == Leaves-1 {
			owners, pages = append(owners, string(e.Owner)), append(pages, int64(data.LeafIndex/Leaves))
		}
	}
	if len(pages) > 0 {
		w.Exec(insert, owners, pages)
	}
	return nil
}

// insert makes pages from rows. A page that exists already, or that lacks a leaf, is an
// error.
//
// The aggregates take their input in the order of the subquery, because no other step is
// between them. ORDER BY in each of the three aggregates would sort three times.
var insert = fmt.Sprintf(`INSERT INTO body_pages (owner, page, bodies)
	SELECT filled.owner, filled.page, made.bodies
	FROM unnest($1::text[], $2::bigint[]) AS filled (owner, page), LATERAL (
		SELECT '\x%[1]x'::bytea || int4send(count(*)::int) || int8send(filled.page * %[2]d)
			|| coalesce(string_agg(uuid_send(id), ''), '')
			|| coalesce(string_agg(int4send(CASE WHEN length(sealed) <= %[3]d THEN length(sealed) ELSE -1 END), ''), '')
			|| coalesce(string_agg(CASE WHEN length(sealed) <= %[3]d THEN sealed ELSE '' END, ''), '') AS bodies
		FROM (SELECT id, sealed FROM memories
			WHERE owner = filled.owner AND leaf_index >= filled.page * %[2]d AND leaf_index < (filled.page + 1) * %[2]d
			ORDER BY leaf_index) AS leaves) AS made`, magic, Leaves, MaxBody)
