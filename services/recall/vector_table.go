package recall

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/search"
)

// ErrTable: reading vectors from the database failed.
var ErrTable = errors.New("vectors can't be read")

// VectorTable stores sealed vectors, one row for each page of an owner's leaves. It is a
// cache in its own schema: rebuilds and audits ignore it, and lost vectors are embedded
// again. A row that does not open, because it was altered or its key was destroyed,
// counts as lost.
type VectorTable struct {
	pool  *pgxpool.Pool
	model string
}

const createVectors = `
CREATE TABLE IF NOT EXISTS ledger_vectors.pages (
	owner  text   NOT NULL,
	page   bigint NOT NULL,
	model  text   NOT NULL,
	leaves int    NOT NULL,
	sealed bytea  NOT NULL,
	PRIMARY KEY (owner, page)
)`

// OpenVectorTable returns the table for a model's vectors, and creates it if it is
// missing. A crash meanwhile leaves nothing: it is one transaction.
func OpenVectorTable(ctx context.Context, pool *pgxpool.Pool, model string) (*VectorTable, error) {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, schema.LockKey("migrate", "ledger_vectors")); err != nil {
			return err
		}
		var there bool // creating an existing schema also needs the right to create schemas
		if err := tx.QueryRow(ctx, `SELECT to_regnamespace('ledger_vectors') IS NOT NULL`).Scan(&there); err != nil {
			return err
		}
		if !there {
			if _, err := tx.Exec(ctx, `CREATE SCHEMA ledger_vectors`); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, createVectors)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make the table of vectors: %w", err)
	}
	return &VectorTable{pool, model}, nil
}

// load returns the page with a number, or an empty one if there is none.
func (t *VectorTable) load(ctx context.Context, r search.Range, number uint64) (*vectorPage, error) {
	var leaves int
	var sealed []byte
	err := t.pool.QueryRow(ctx, `SELECT leaves, sealed FROM ledger_vectors.pages WHERE owner = $1 AND page = $2 AND model = $3`,
		r.Owner, number, t.model).Scan(&leaves, &sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return &vectorPage{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTable, err)
	}
	keeper, err := r.Key.VectorKeeper()
	if err != nil {
		return nil, err
	}
	plain, err := keeper.Open(nil, t.bound(number, leaves), sealed)
	if err != nil {
		return &vectorPage{}, nil
	}
	return pageOf(leaves, signed(plain)), nil
}

// save stores a page, unless a longer one of the same model is stored: then another
// replica was ahead.
func (t *VectorTable) save(ctx context.Context, r search.Range, number uint64, p *vectorPage) error {
	keeper, err := r.Key.VectorKeeper()
	if err != nil {
		return err
	}
	leaves := len(p.norms)
	sealed := keeper.Seal(make([]byte, 0, len(p.vectors)+keystore.KeptOverhead), t.bound(number, leaves), unsigned(p.vectors))
	_, err = t.pool.Exec(ctx, `INSERT INTO ledger_vectors.pages AS p (owner, page, model, leaves, sealed) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (owner, page) DO UPDATE SET model = excluded.model, leaves = excluded.leaves, sealed = excluded.sealed
		WHERE p.model <> excluded.model OR p.leaves <= excluded.leaves`, r.Owner, number, t.model, leaves, sealed)
	if err != nil {
		return fmt.Errorf("save vectors: %w", err)
	}
	return nil
}

// bound returns the data that is bound into a sealed page, besides its owner.
func (t *VectorTable) bound(number uint64, leaves int) []byte {
	context := binary.BigEndian.AppendUint64(nil, number)
	context = binary.BigEndian.AppendUint32(context, uint32(leaves))
	return append(context, t.model...)
}

func signed(b []byte) []int8 {
	s := make([]int8, len(b))
	for i, x := range b {
		s[i] = int8(x)
	}
	return s
}

func unsigned(s []int8) []byte {
	b := make([]byte, len(s))
	for i, x := range s {
		b[i] = byte(x)
	}
	return b
}
