package grants

import (
	"context"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection folds grants, their uses and their ends.
type Projection struct{}

var _ projector.Projection = Projection{}

// Name implements projector.Projection.
func (Projection) Name() string { return "grants" }

// Tables implements projector.Projection.
func (Projection) Tables() []string { return []string{"grants"} }

type minted struct {
	id, tokenHash [][]byte
	owner, kind   []string
	at, expires   []time.Time
	maxUses       []int32
	seq           []int64
}

// uses pairs grants with the highest use that was spent.
type uses struct {
	id    [][]byte
	use   []int32
	place map[column.UUID]int
}

// Apply implements projector.Projection.
func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	var (
		add   minted
		spent uses
		end   column.Firsts
	)
	for r, e := range s.Events() {
		switch data := e.Data.(type) {
		case *events.GrantMinted:
			id, ok := column.ParseUUID(data.GrantID)
			if !ok {
				return projector.Unexpected(r, e, "the grant id is not a UUID")
			}
			add.add(r, e, id, data)
		case *events.GrantConsumed:
			id, ok := column.ParseUUID(data.GrantID)
			if !ok {
				return projector.Unexpected(r, e, "the grant id is not a UUID")
			}
			spent.add(id, int32(data.Use))
		case *events.GrantRevoked:
			id, ok := column.ParseUUID(data.GrantID)
			if !ok {
				return projector.Unexpected(r, e, "the grant id is not a UUID")
			}
			end.Add(id, e.Time.Time())
		}
	}
	if len(add.id) > 0 {
		w.Exec(`INSERT INTO grants (id, owner, kind, token_hash, minted_at, expires_at, max_uses, used, seq)
			SELECT id, owner, kind, token_hash, minted_at, expires_at, max_uses, 0, seq
			FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::timestamptz[], $6::timestamptz[], $7::integer[], $8::bigint[])
			     AS d (id, owner, kind, token_hash, minted_at, expires_at, max_uses, seq)`,
			add.id, add.owner, add.kind, add.tokenHash, add.at, add.expires, add.maxUses, add.seq)
	}
	if len(spent.id) > 0 {
		w.Exec(`UPDATE grants g SET used = greatest(g.used, d.use)
			FROM unnest($1::uuid[], $2::integer[]) AS d (id, use) WHERE g.id = d.id`, spent.id, spent.use)
	}
	if len(end.ID) > 0 {
		w.Exec(`UPDATE grants g SET revoked_at = d.at
			FROM unnest($1::uuid[], $2::timestamptz[]) AS d (id, at)
			WHERE g.id = d.id AND g.revoked_at IS NULL`, end.ID, end.At)
	}
	return nil
}

func (m *minted) add(r *projector.Record, e *events.Event, id column.UUID, data *events.GrantMinted) {
	m.id, m.tokenHash = append(m.id, id[:]), append(m.tokenHash, data.TokenHash[:])
	m.owner, m.kind = append(m.owner, string(e.Owner)), append(m.kind, string(data.Kind))
	m.at, m.expires = append(m.at, e.Time.Time()), append(m.expires, data.ExpiresAt.Time())
	m.maxUses, m.seq = append(m.maxUses, int32(data.MaxUses)), append(m.seq, int64(r.Seq))
}

func (u *uses) add(id column.UUID, use int32) {
	if i, again := u.place[id]; again {
		u.use[i] = max(u.use[i], use)
		return
	}
	if u.place == nil {
		u.place = make(map[column.UUID]int)
	}
	u.place[id] = len(u.id)
	u.id, u.use = append(u.id, id[:]), append(u.use, use)
}
