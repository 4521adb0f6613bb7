// Package grants is the read model of capabilities that owners gave to others: agent
// cases, which allow reads, and memory drops, which allow writes.
package grants

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

type Grant struct {
	ID        string
	Owner     events.Owner
	Kind      events.GrantKind
	TokenHash events.Hash // SHA-256 of the whole token text
	MintedAt  events.Timestamp
	ExpiresAt events.Timestamp
	MaxUses   int
	Used      int
	RevokedAt *events.Timestamp
	By        *events.Via // what minted it; nil if its event does not say
	Namespace string      // what it is limited to; empty: no limit
}

// Live reports whether the grant can still be used: not revoked, not expired,
// with uses left.
func (g Grant) Live(now time.Time) bool {
	return g.RevokedAt == nil && g.Used < g.MaxUses && now.Before(g.ExpiresAt.Time())
}

// Revoked reports whether a revocation ended the grant, and not its expiry before: a
// revocation is recorded also of a grant that has expired, which may be alive by a clock that
// is behind.
func (g Grant) Revoked(now time.Time) bool {
	return g.RevokedAt != nil && (g.RevokedAt.Before(g.ExpiresAt) || now.Before(g.ExpiresAt.Time()))
}

const columns = `id, owner, kind, token_hash, minted_at, expires_at, max_uses, used, revoked_at, minted_by, namespace`

// ByTokenHash returns the grant whose token has this SHA-256, live or ended.
func ByTokenHash(ctx context.Context, q schema.Querier, hash events.Hash) (Grant, bool, error) {
	return column.One(q.QueryRow(ctx, `SELECT `+columns+` FROM grants WHERE token_hash = $1 ORDER BY seq LIMIT 1`, hash[:]), "find grant", scan)
}

// ByID returns a grant of the owner, live or ended. It does not find the id of another
// owner's grant, or a text that is not an id.
func ByID(ctx context.Context, q schema.Querier, owner events.Owner, id string) (Grant, bool, error) {
	return column.ByID(ctx, q, "find grant", scan, `SELECT `+columns+` FROM grants WHERE id = $1 AND owner = $2`, id, string(owner))
}

// Active returns the owner's grants that can still be used, oldest first: not
// revoked, not expired, with uses left.
func Active(ctx context.Context, q schema.Querier, owner events.Owner, now time.Time) ([]Grant, error) {
	return column.All(ctx, q, "active grants", scan, `SELECT `+columns+` FROM grants
		WHERE owner = $1 AND revoked_at IS NULL AND used < max_uses AND expires_at > $2
		ORDER BY seq, id`, string(owner), now)
}

func scan(row pgx.Row) (Grant, error) {
	var (
		g               Grant
		id              column.UUID
		minted, expires time.Time
		revoked         *time.Time
		by              *string
		namespace       []byte
	)
	if err := row.Scan(&id, (*string)(&g.Owner), (*string)(&g.Kind), column.Hash(&g.TokenHash),
		&minted, &expires, &g.MaxUses, &g.Used, &revoked, &by, &namespace); err != nil {
		return Grant{}, err
	}
	g.ID = column.UUIDText(id)
	g.By, g.Namespace = column.Via(by), string(namespace)
	g.MintedAt, g.ExpiresAt, g.RevokedAt = events.At(minted), events.At(expires), column.Time(revoked)
	return g, nil
}

// NamespaceArg returns what the column of a grant's namespace holds.
func NamespaceArg(namespace string) []byte {
	if namespace == "" {
		return nil
	}
	return []byte(namespace)
}

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
