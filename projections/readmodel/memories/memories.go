// Package memories is the read model of the leaves: the memories of an owner, in the
// order of the owner's log.
package memories

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Memory is one leaf. Its content is sealed; this package can't read it.
type Memory struct {
	ID        string
	Owner     events.Owner
	LeafIndex uint64
	LeafHash  events.Hash
	Metadata  canonical.Object
	Sealed    []byte
	CreatedAt events.Timestamp // of an imported memory: where it was written first
	Seq       uint64
	Via       *events.Via // how it was written; nil if its event does not say
	Salt      events.Salt
	Sealing   int // version of the sealing
	Imported  *events.Imported

	Supersedes   []Other // in the order of its event
	SupersededBy []Other // newest first, without those that were taken back

	Retracted bool // the owner retracted it, had it forgotten, or erased all memories at the time

	// BatchID names the batch that covers the leaf, nil before one is cut. Anchored
	// means that this batch is confirmed. See package batches.
	BatchID  *string
	Anchored bool
}

const columns = own + `, ` + corrections + `, ` + retracted + `, ` + covering

const own = `m.id, m.owner, m.leaf_index, m.leaf_hash, m.metadata, m.sealed, ` + writtenFirst + `, m.seq, m.via, m.salt, m.sealing, m.imported_id, m.imported_via`

const retracted = `EXISTS (SELECT FROM retractions r WHERE r.owner = m.owner AND r.leaf_index = m.leaf_index)
	OR EXISTS (SELECT FROM erasures e WHERE e.owner = m.owner AND e.leaves > m.leaf_index)`

// writtenFirst is when row m was written, here or where it was imported from.
const writtenFirst = `coalesce(m.imported_at, m.created_at)`

// cameInFirst is how row m was written at first, here or where it was imported from.
const cameInFirst = `CASE WHEN m.imported_id IS NULL THEN m.via ELSE m.imported_via END`

// covering finds the batch that covers row m, by a probe of each of two small indexes: the
// smallest confirmed batch that reaches the leaf, and the smallest open one. With $1 for
// m.owner, a memory by its id takes an eighth longer.
const covering = `
	(SELECT b.id FROM batches b WHERE b.owner = m.owner AND b.state = 'confirmed' AND b.size > m.leaf_index
	 ORDER BY b.size, b.id LIMIT 1),
	(SELECT b.id FROM batches b WHERE b.owner = m.owner AND b.state IN ('cut', 'submitted') AND b.size > m.leaf_index
	 ORDER BY b.size, b.id LIMIT 1)`

// ByID returns a memory of the owner by its id, or by the one that it had where it was
// imported from. It does not find the id of another owner's memory, or a text that is not an
// id.
func ByID(ctx context.Context, q schema.Querier, owner events.Owner, id string) (*Memory, bool, error) {
	key, ok := column.ParseUUID(id)
	if !ok {
		return nil, false, nil
	}
	m, found, err := one(ctx, q, owner, `m.id = $2`, key)
	if found || err != nil {
		return m, found, err
	}
	return one(ctx, q, owner, `m.leaf_index = (SELECT min(leaf_index) FROM memories WHERE owner = $1 AND imported_id = $2)`, key)
}

// one returns the memory of the owner that a condition holds for. Most owners have no
// corrections, and asking for them takes longer than all the rest of the query.
func one(ctx context.Context, q schema.Querier, owner events.Owner, condition string, arg any) (m *Memory, found bool, err error) {
	const none = `NULL::text[], NULL::text[]`
	var corrected bool
	for _, also := range []string{none, corrections} {
		m, found, err = column.One(q.QueryRow(ctx, `SELECT `+own+`, `+also+`, `+retracted+`, `+covering+`,
			EXISTS (SELECT FROM corrections WHERE owner = $1) FROM memories m WHERE m.owner = $1 AND `+condition, string(owner), arg),
			"find memory", func(row pgx.Row) (*Memory, error) { return scan(row, &corrected) })
		if err != nil || !found || !corrected {
			break
		}
	}
	return m, found, err
}

func WrittenAt(ctx context.Context, q schema.Querier, owner events.Owner, leaf uint64) (events.Timestamp, bool, error) {
	return column.One(q.QueryRow(ctx, `SELECT created_at FROM memories WHERE owner = $1 AND leaf_index = $2`, string(owner), leaf),
		"time of a leaf", func(row pgx.Row) (events.Timestamp, error) {
			var at time.Time
			err := row.Scan(&at)
			return events.At(at), err
		})
}

// BytesBetween returns how many bytes of sealed content and metadata the owner wrote from a
// time until another; the empty metadata object is free. It looks no further back than to the
// first leaf from more than spread before that: clocks differ by no more.
func BytesBetween(ctx context.Context, q schema.Querier, owner events.Owner, from, until time.Time, spread time.Duration) (bytes int64, err error) {
	err = q.QueryRow(ctx, `SELECT coalesce(sum(octet_length(sealed) + octet_length(metadata) - 2), 0) FROM memories
		WHERE owner = $1 AND created_at >= $2 AND created_at < $4 AND leaf_index > coalesce(
			(SELECT leaf_index FROM memories WHERE owner = $1 AND created_at < $3 ORDER BY leaf_index DESC LIMIT 1), -1)`,
		string(owner), from, from.Add(-spread), until).Scan(&bytes)
	if err != nil {
		return 0, fmt.Errorf("bytes of a day: %w", err)
	}
	return bytes, nil
}

// ByIdempotencyKey returns the memory that the owner wrote with the idempotency key that
// has this SHA-256.
func ByIdempotencyKey(ctx context.Context, q schema.Querier, owner events.Owner, hash events.Hash) (Memory, bool, error) {
	m, found, err := one(ctx, q, owner, `m.idempotency_key_hash = $2`, hash[:])
	if !found || err != nil {
		return Memory{}, false, err
	}
	return *m, true, nil
}

// IdempotencyKeys returns the hashes of the idempotency keys that the owner used, in
// ascending order, at most limit.
func IdempotencyKeys(ctx context.Context, q schema.Querier, owner events.Owner, limit int) ([]events.Hash, error) {
	// ORDER BY matches the index on the hashes. Without it, a plan that was made while
	// the table was small would read all of the owner's rows.
	return column.All(ctx, q, "idempotency keys", func(row pgx.Row) (hash events.Hash, err error) {
		err = row.Scan(column.Hash(&hash))
		return hash, err
	}, `SELECT idempotency_key_hash FROM memories
		WHERE owner = $1 AND idempotency_key_hash IS NOT NULL ORDER BY idempotency_key_hash LIMIT $2`, string(owner), limit)
}

// scan reads a row of columns, and of more after them. Bytes that were altered in the
// database must not fail the answer that other rows are part of: a hash of another length
// becomes a wrong hash, a time that no event has becomes the zero time, and a negative
// index becomes one that no log reaches.
func scan(row pgx.Row, more ...any) (*Memory, error) {
	var (
		m              Memory
		id             column.UUID
		hash, metadata []byte
		created        pgtype.Timestamptz
		leafIndex, seq int64
		via            *string
		importedID     *column.UUID
		importedVia    *string

		supersedes, supersededBy []string

		confirmed, open *column.UUID
	)
	targets := append([]any{&id, (*string)(&m.Owner), &leafIndex, &hash,
		&metadata, &m.Sealed, &created, &seq, &via, (*string)(&m.Salt), &m.Sealing, &importedID, &importedVia, &supersedes, &supersededBy, &m.Retracted,
		&confirmed, &open}, more...)
	if err := row.Scan(targets...); err != nil {
		return nil, err
	}
	m.Supersedes, m.SupersededBy = othersOf(supersedes), othersOf(supersededBy)
	if len(hash) == events.HashSize {
		m.LeafHash = events.Hash(hash)
	}
	m.CreatedAt = createdAt(created)
	m.Via, m.LeafIndex, m.Seq = column.Via(via), uint64(leafIndex), uint64(seq)
	m.ID, m.Metadata = column.UUIDText(id), canonical.Trusted(metadata)
	if importedID != nil {
		m.Imported = &events.Imported{ID: column.UUIDText(*importedID), CreatedAt: m.CreatedAt, Via: column.Via(importedVia)}
	}
	if batch := cmp.Or(confirmed, open); batch != nil {
		m.BatchID, m.Anchored = new(column.UUIDText(*batch)), confirmed != nil
	}
	return &m, nil
}

func createdAt(at pgtype.Timestamptz) events.Timestamp {
	if year := at.Time.UTC().Year(); year < 0 || year > 9999 {
		return events.Timestamp{}
	}
	return events.At(at.Time)
}
