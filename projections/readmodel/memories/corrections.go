package memories

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

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
// reads all of the owner's rows: an index would cost each write something, and corrections
// are rare.
func WithHash(ctx context.Context, q schema.Querier, owner events.Owner, hashes []events.Hash) ([]Hashed, error) {
	texts := make([][]byte, len(hashes))
	for i, h := range hashes {
		texts[i] = h[:]
	}
	leaves, err := column.All(ctx, q, "leaves by hash", func(row pgx.Row) (h Hashed, err error) {
		err = row.Scan(&h.Leaf, column.Hash(&h.Hash))
		return h, err
	}, `SELECT leaf_index, leaf_hash FROM memories WHERE owner = $1 AND leaf_hash = ANY($2)`, string(owner), texts)
	slices.SortFunc(leaves, func(a, b Hashed) int { return cmp.Compare(a.Leaf, b.Leaf) })
	return leaves, err
}

// insertCorrections adds a row for each leaf that a memory supersedes.
func insertCorrections(w *projector.Writer, m *written) {
	for i, leaf := range m.Supersedes {
		w.Exec(`INSERT INTO corrections (owner, leaf_index, by_leaf, position, seq) VALUES ($1, $2, $3, $4, $5)`,
			m.owner, int64(leaf), int64(m.LeafIndex), i, m.seq)
	}
}
