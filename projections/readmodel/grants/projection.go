package grants

import (
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
)

// NamespaceArg returns what the column of a grant's namespace holds.
func NamespaceArg(namespace string) []byte {
	if namespace == "" {
		return nil
	}
	return []byte(namespace)
}

// Projection folds grants, their uses and their revocations.
var Projection = projector.Fold("grants", []string{"grants"}, func(w *projector.Writer, r *projector.Record, e *events.Event) error {
	switch data := e.Data.(type) {
	case *events.GrantMinted:
		return w.ExecByID(r, e, data.GrantID, `INSERT INTO grants (id, owner, kind, token_hash, minted_at, expires_at, max_uses, used, seq, minted_by, namespace)
			VALUES ($1, $2, $3, $4, $5, $6, $7, 0, $8, $9, $10)`,
			e.Owner, data.Kind, data.TokenHash[:], e.Time.Time(), data.ExpiresAt.Time(), data.MaxUses, r.Seq, column.ViaArg(data.By), NamespaceArg(data.Namespace))
	case *events.GrantConsumed:
		return w.ExecByID(r, e, data.GrantID, `UPDATE grants SET used = greatest(used, $2) WHERE id = $1`, data.Use)
	case *events.GrantRevoked:
		return w.ExecByID(r, e, data.GrantID, `UPDATE grants SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL`, e.Time.Time())
	}
	return nil
})
