// Package apikeys is the read model of the API keys that owners created for programs.
package apikeys

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Key is one API key, without its secret.
type Key struct {
	ID         string
	Owner      events.Owner
	Hash       events.Hash // SHA-256 of the whole key text
	Prefix     string
	Label      string
	Scopes     []events.Scope
	CreatedAt  events.Timestamp
	ExpiresAt  *events.Timestamp // nil: never
	LastUsedAt *events.Timestamp
	RevokedAt  *events.Timestamp
	CreatedBy  *events.Via // nil if its event does not say
	Namespaces []string    // what it is limited to; nil: no limit
	App        *events.App // nil for a key that was made by hand
	At         Position
}

// Position is a key's place among its owner's keys. The zero Position is before the
// first key.
type Position struct {
	seq uint64 // of the log
	id  column.UUID
}

const columns = `id, owner, hash, prefix, label, scopes, created_at, expires_at, last_used_at, revoked_at, seq, created_by, namespaces, app`

// ByHash returns the key whose text has this SHA-256, live or revoked.
func ByHash(ctx context.Context, q schema.Querier, hash events.Hash) (Key, bool, error) {
	return column.One(q.QueryRow(ctx, `SELECT `+columns+` FROM api_keys WHERE hash = $1 ORDER BY seq LIMIT 1`, hash[:]), "API key by hash", scan)
}

// ByID returns the owner's key with this id, live or revoked.
func ByID(ctx context.Context, q schema.Querier, owner events.Owner, id string) (Key, bool, error) {
	return column.ByID(ctx, q, "API key by id", scan, `SELECT `+columns+` FROM api_keys WHERE id = $1 AND owner = $2`, id, string(owner))
}

// List returns the owner's keys after a position, oldest first, including revoked keys.
// It returns at most limit keys, and fewer only if there are no more.
func List(ctx context.Context, q schema.Querier, owner events.Owner, after Position, limit int) ([]Key, error) {
	return column.All(ctx, q, "list API keys", scan, `SELECT `+columns+` FROM api_keys
		WHERE owner = $1 AND (seq, id) > ($2, $3::uuid) ORDER BY seq, id LIMIT $4`, string(owner), after.seq, after.id[:], limit)
}

// Active returns the keys of an owner that can still be used, oldest first.
func Active(ctx context.Context, q schema.Querier, owner events.Owner, now time.Time) ([]Key, error) {
	return column.All(ctx, q, "active API keys", scan, `SELECT `+columns+` FROM api_keys
		WHERE owner = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $2) ORDER BY seq, id`, string(owner), now)
}

func scan(row pgx.Row) (Key, error) {
	var (
		k                      Key
		label                  []byte
		scopes                 string
		created                time.Time
		expires, used, revoked *time.Time
		by                     *string
		namespaces, app        []byte
	)
	if err := row.Scan(&k.At.id, (*string)(&k.Owner), column.Hash(&k.Hash), &k.Prefix, &label, &scopes, &created, &expires, &used, &revoked, &k.At.seq, &by, &namespaces, &app); err != nil {
		return Key{}, err
	}
	k.ID, k.Label, k.Scopes = column.UUIDText(k.At.id), string(label), events.SplitScopes(scopes)
	k.CreatedBy = column.Via(by)
	if namespaces != nil {
		if err := json.Unmarshal(namespaces, &k.Namespaces); err != nil {
			return Key{}, fmt.Errorf("namespaces of API key %s: %w", k.ID, err)
		}
		if k.Namespaces == nil {
			k.Namespaces = []string{} // altered; never a key without a limit
		}
	}
	if app != nil {
		if err := json.Unmarshal(app, &k.App); err != nil {
			return Key{}, fmt.Errorf("app of API key %s: %w", k.ID, err)
		}
	}
	k.CreatedAt, k.ExpiresAt, k.LastUsedAt, k.RevokedAt = events.At(created), column.Time(expires), column.Time(used), column.Time(revoked)
	return k, nil
}

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
