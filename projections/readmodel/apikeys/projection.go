package apikeys

import (
	"github.com/go-json-experiment/json"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
)

// NamespacesArg returns what the column of a key's namespaces holds.
func NamespacesArg(namespaces []string) *string {
	if namespaces == nil {
		return nil
	}
	return jsonArg(namespaces)
}

// AppArg returns what the column of a key's app holds.
func AppArg(app *events.App) *string {
	if app == nil {
		return nil
	}
	return jsonArg(app)
}

func jsonArg(v any) *string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // impossible: it came out of JSON
	}
	return new(string(text))
}

// Projection folds API keys, their uses and their revocations.
var Projection = projector.Fold("apikeys", []string{"api_keys"}, func(w *projector.Writer, r *projector.Record, e *events.Event) error {
	switch data := e.Data.(type) {
	case *events.ApiKeyCreated:
		return w.ExecByID(r, e, data.KeyID, `INSERT INTO api_keys (id, owner, hash, prefix, label, scopes, created_at, expires_at, seq, created_by, namespaces, app)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
			e.Owner, data.KeyHash[:], data.Prefix, []byte(data.Label), events.JoinScopes(data.Scopes),
			e.Time.Time(), column.TimeArg(data.ExpiresAt), r.Seq, column.ViaArg(data.CreatedBy), NamespacesArg(data.Namespaces), AppArg(data.App))
	case *events.ApiKeyUsed:
		return w.ExecByID(r, e, data.KeyID, `UPDATE api_keys SET last_used_at = greatest(last_used_at, $2) WHERE id = $1`, e.Time.Time())
	case *events.ApiKeyRevoked:
		return w.ExecByID(r, e, data.KeyID, `UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL`, e.Time.Time())
	}
	return nil
})
