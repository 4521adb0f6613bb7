package sessions

import (
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection folds sign-ins and revocations of their sessions.
var Projection = projector.Fold("sessions", []string{"sessions"}, func(w *projector.Writer, r *projector.Record, e *events.Event) error {
	switch data := e.Data.(type) {
	case *events.SessionIssued:
		return w.ExecByID(r, e, data.SessionID, `INSERT INTO sessions (id, owner, audience, token_hash, issued_at, expires_at, seq)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			e.Owner, data.Audience, column.HashArg(data.TokenHash), e.Time.Time(), data.ExpiresAt.Time(), r.Seq)
	case *events.SessionRevoked:
		return w.ExecByID(r, e, data.SessionID, `UPDATE sessions SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL`, e.Time.Time())
	}
	return nil
})
