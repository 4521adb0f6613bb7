package memories

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/projections/tree"
)

// Projection adds a row for each leaf, and for each leaf that it supersedes.
type Projection struct{}

func (Projection) Name() string { return "memories" }

func (Projection) Tables() []string { return []string{"memories", "corrections"} }

type written struct {
	*events.MemoryWritten
	id      column.UUID
	owner   string
	seq     int64
	created time.Time
}

// stored lists the columns of a row, in the order of [written.values].
const stored = `owner, leaf_index, id, leaf_hash, metadata, sealed, created_at, idempotency_key_hash, seq, via, salt, sealing, imported_id, imported_at, imported_via`

func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	rows := make([]written, 0, len(s.Records))
	for r, e := range s.Events() {
		data, ok := e.Data.(*events.MemoryWritten)
		if !ok {
			continue
		}
		id, ok := column.ParseUUID(data.MemoryID)
		if !ok {
			return projector.Unexpected(r, e, "the memory id is not a UUID")
		}
		rows = append(rows, written{data, id, string(e.Owner), int64(r.Seq), e.Time.Time()})
		if len(data.Supersedes) > 0 {
			w.Exec(`INSERT INTO corrections (owner, leaf_index, by_leaf, position)
				SELECT $1, leaf, $2, n - 1 FROM unnest($3::bigint[]) WITH ORDINALITY AS superseded (leaf, n)
				ON CONFLICT (owner, leaf_index, by_leaf) DO NOTHING`,
				e.Owner, data.LeafIndex, data.Supersedes)
		}
	}
	switch {
	case len(rows) == 0:
	// This is the number of rows at which COPY becomes worth its extra round trips.
	case len(rows) < 100:
		values := make([][]any, len(rows))
		for i := range rows {
			values[i] = rows[i].values()
		}
		w.ExecRows(`INSERT INTO memories (`+stored+`)
			SELECT * FROM unnest($1::text[], $2::bigint[], $3::uuid[], $4::bytea[], $5::text[], $6::bytea[], $7::timestamptz[], $8::bytea[], $9::bigint[], $10::text[], $11::text[], $12::smallint[], $13::uuid[], $14::timestamptz[], $15::text[])`, values)
	default:
		// Put each owner's rows side by side: they arrive in log order, but reads ask for one
		// owner's leaves. For a long slice, this touches a fraction of the pages, both of the
		// index that is filled and of the table.
		slices.SortFunc(rows, func(a, b written) int {
			return cmp.Or(strings.Compare(a.owner, b.owner), cmp.Compare(a.LeafIndex, b.LeafIndex))
		})
		w.Copy("memories", strings.Split(stored, ", "),
			pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) { return rows[i].values(), nil }))
	}
	return nil
}

// values returns the row's values in the order of stored.
func (m *written) values() []any {
	id, at, via := m.before()
	return []any{m.owner, int64(m.LeafIndex), m.id[:], m.LeafHash[:], []byte(m.Metadata), column.Bytes(m.Sealed), m.created,
		column.HashArg(m.IdempotencyKeyHash), m.seq, column.ViaArg(m.Via), string(m.Salt), int16(m.Sealing), id, at, via}
}

// before returns what the memory was where it was exported: NULLs if it was not imported.
func (m *written) before() (id []byte, at *time.Time, via *string) {
	if m.Imported == nil {
		return nil, nil, nil
	}
	if parsed, ok := column.ParseUUID(m.Imported.ID); ok { // only of a log that another program wrote it is none
		id = parsed[:]
	}
	return id, column.TimeArg(&m.Imported.CreatedAt), column.ViaArg(m.Imported.Via)
}

// Other is another memory of the same owner.
type Other struct {
	Leaf uint64
	ID   string
}

// corrections selects what row m supersedes, in order, and what supersedes it, newest
// first. Each is an array of "leaf id".
const corrections = `
	ARRAY(SELECT o.leaf_index || ' ' || o.id FROM corrections c JOIN memories o ON o.owner = c.owner AND o.leaf_index = c.leaf_index
		WHERE c.owner = m.owner AND c.by_leaf = m.leaf_index ORDER BY c.position),
	ARRAY(SELECT o.leaf_index || ' ' || o.id FROM corrections c JOIN memories o ON o.owner = c.owner AND o.leaf_index = c.by_leaf
		WHERE c.owner = m.owner AND c.leaf_index = m.leaf_index AND ` + standing + ` ORDER BY c.by_leaf DESC)`

// standing is true for a correction whose memory was not taken back.
const standing = `NOT EXISTS (SELECT FROM retractions r WHERE r.owner = c.owner AND r.leaf_index = c.by_leaf)
	AND NOT EXISTS (SELECT FROM erasures e WHERE e.owner = c.owner AND e.leaves > c.by_leaf)`

func othersOf(texts []string) (others []Other) {
	for _, text := range texts {
		leaf, id, _ := strings.Cut(text, " ")
		index, _ := strconv.ParseUint(leaf, 10, 63) // the query writes it
		others = append(others, Other{index, id})
	}
	return others
}

// Correction says that the memory of one leaf supersedes that of another.
type Correction struct{ Leaf, By uint64 }

// Corrections returns the corrections among the owner's leaves below size whose memories
// were not taken back.
func Corrections(ctx context.Context, q schema.Querier, owner events.Owner, size uint64) ([]Correction, error) {
	return column.All(ctx, q, "corrections", func(row pgx.Row) (c Correction, err error) {
		err = row.Scan(&c.Leaf, &c.By)
		return c, err
	}, `SELECT c.leaf_index, c.by_leaf FROM corrections c WHERE c.owner = $1 AND c.by_leaf < $2 AND `+standing, string(owner), min(size, math.MaxInt64))
}

type Hashed struct {
	Leaf uint64
	Hash events.Hash
}

// WithHash returns the owner's leaves that have one of the hashes, in ascending order. It
// reads the hashes of all leaves, from their tiles: an index would cost each write something,
// and the memories themselves are many times as long.
func WithHash(ctx context.Context, q schema.Querier, owner events.Owner, hashes []events.Hash) (leaves []Hashed, err error) {
	rows, err := q.Query(ctx, `SELECT tile_index * $2, hashes FROM tiles WHERE owner = $1 AND level = 0
		UNION ALL SELECT leaf_index, leaf_hash FROM memories WHERE owner = $1
			AND leaf_index >= $2 * coalesce((SELECT max(tile_index) + 1 FROM tiles WHERE owner = $1 AND level = 0), 0)`, string(owner), tree.TileWidth)
	if err == nil {
		wanted := make(map[events.Hash]bool, len(hashes))
		for _, h := range hashes {
			wanted[h] = true
		}
		var first uint64
		var packed []byte
		_, err = pgx.ForEachRow(rows, []any{&first, &packed}, func() error {
			for i, h := range tree.Split(packed) {
				if wanted[h] {
					leaves = append(leaves, Hashed{first + uint64(i), h})
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("leaves by hash: %w", err)
	}
	slices.SortFunc(leaves, func(a, b Hashed) int { return cmp.Compare(a.Leaf, b.Leaf) })
	return leaves, nil
}
