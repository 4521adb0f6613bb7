package sessions

import (
	"context"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection folds sign-ins and revocations of their sessions.
type Projection struct{}

var _ projector.Projection = Projection{}

// Name implements projector.Projection.
func (Projection) Name() string { return "sessions" }

// Tables implements projector.Projection.
func (Projection) Tables() []string { return []string{"sessions"} }

// Apply implements projector.Projection.
func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	for r, e := range s.Events() {
		switch data := e.Data.(type) {
		case *events.SessionIssued:
			id, err := projector.ID(r, e, data.SessionID)
			if err != nil {
				return err
			}
			w.Exec(`INSERT INTO sessions (id, owner, audience, token_hash, issued_at, expires_at, seq)
				VALUES ($1, $2, $3, $4, $5, $6, $7)`,
				id, e.Owner, data.Audience, column.HashArg(data.TokenHash), e.Time.Time(), data.ExpiresAt.Time(), r.Seq)
		case *events.SessionRevoked:
			id, err := projector.ID(r, e, data.SessionID)
			if err != nil {
				return err
			}
			w.Exec(`UPDATE sessions SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL`, id, e.Time.Time())
		}
	}
	return nil
}
