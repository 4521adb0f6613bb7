package apikeys

import (
	"context"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection folds API keys, their uses and their revocations.
type Projection struct{}

var _ projector.Projection = Projection{}

// Name implements projector.Projection.
func (Projection) Name() string { return "apikeys" }

// Tables implements projector.Projection.
func (Projection) Tables() []string { return []string{"api_keys"} }

// Apply implements projector.Projection.
func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	for r, e := range s.Events() {
		switch data := e.Data.(type) {
		case *events.ApiKeyCreated:
			id, err := projector.ID(r, e, data.KeyID)
			if err != nil {
				return err
			}
			w.Exec(`INSERT INTO api_keys (id, owner, hash, prefix, label, scopes, created_at, expires_at, seq)
				VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
				id, e.Owner, data.KeyHash[:], data.Prefix, []byte(data.Label), events.JoinScopes(data.Scopes),
				e.Time.Time(), column.TimeArg(data.ExpiresAt), r.Seq)
		case *events.ApiKeyUsed:
			id, err := projector.ID(r, e, data.KeyID)
			if err != nil {
				return err
			}
			w.Exec(`UPDATE api_keys SET last_used_at = greatest(last_used_at, $2) WHERE id = $1`, id, e.Time.Time())
		case *events.ApiKeyRevoked:
			id, err := projector.ID(r, e, data.KeyID)
			if err != nil {
				return err
			}
			w.Exec(`UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL`, id, e.Time.Time())
		}
	}
	return nil
}
