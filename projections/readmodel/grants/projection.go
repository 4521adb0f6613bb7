package grants

import (
	"context"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection folds grants, their uses and their revocations.
type Projection struct{}

var _ projector.Projection = Projection{}

// Name implements projector.Projection.
func (Projection) Name() string { return "grants" }

// Tables implements projector.Projection.
func (Projection) Tables() []string { return []string{"grants"} }

// Apply implements projector.Projection.
func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	for r, e := range s.Events() {
		switch data := e.Data.(type) {
		case *events.GrantMinted:
			id, err := projector.ID(r, e, data.GrantID)
			if err != nil {
				return err
			}
			w.Exec(`INSERT INTO grants (id, owner, kind, token_hash, minted_at, expires_at, max_uses, used, seq)
				VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8)`,
				id, e.Owner, data.Kind, data.TokenHash[:], e.Time.Time(), data.ExpiresAt.Time(), data.MaxUses, r.Seq)
		case *events.GrantConsumed:
			id, err := projector.ID(r, e, data.GrantID)
			if err != nil {
				return err
			}
			w.Exec(`UPDATE grants SET used = greatest(used, $2) WHERE id = $1`, id, data.Use)
		case *events.GrantRevoked:
			id, err := projector.ID(r, e, data.GrantID)
			if err != nil {
				return err
			}
			w.Exec(`UPDATE grants SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL`, id, e.Time.Time())
		}
	}
	return nil
}
