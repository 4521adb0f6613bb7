// Package sessions is the read model of sign-ins.
package sessions

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

type Session struct {
	ID        string
	Owner     events.Owner
	Audience  events.Audience
	TokenHash *events.Hash // nil for core
	IssuedAt  events.Timestamp
	ExpiresAt events.Timestamp
	RevokedAt *events.Timestamp
}

const columns = `id, owner, audience, token_hash, issued_at, expires_at, revoked_at`

// ByTokenHash returns the extension session whose token has this SHA-256, live or ended.
func ByTokenHash(ctx context.Context, q schema.Querier, hash events.Hash) (Session, bool, error) {
	return column.One(q.QueryRow(ctx, `SELECT `+columns+` FROM sessions WHERE token_hash = $1 ORDER BY seq LIMIT 1`, hash[:]), "session by token", scan)
}

// ByID returns a session of the owner, live or ended. It does not find the id of another
// owner's session, or a text that is not an id.
func ByID(ctx context.Context, q schema.Querier, owner events.Owner, id string) (Session, bool, error) {
	return column.ByID(ctx, q, "session by id", scan, `SELECT `+columns+` FROM sessions WHERE id = $1 AND owner = $2`, id, string(owner))
}

// Active returns the owner's sessions of both APIs that are neither revoked nor
// expired, oldest first.
func Active(ctx context.Context, q schema.Querier, owner events.Owner, now time.Time) ([]Session, error) {
	return column.All(ctx, q, "active sessions", scan, `SELECT `+columns+` FROM sessions
		WHERE owner = $1 AND revoked_at IS NULL AND expires_at > $2
		ORDER BY seq, id`, string(owner), now)
}

func scan(row pgx.Row) (Session, error) {
	var (
		s               Session
		id              column.UUID
		hash            []byte
		issued, expires time.Time
		revoked         *time.Time
	)
	if err := row.Scan(&id, (*string)(&s.Owner), (*string)(&s.Audience), &hash, &issued, &expires, &revoked); err != nil {
		return Session{}, err
	}
	s.ID = column.UUIDText(id)
	if hash != nil {
		s.TokenHash = new(events.Hash)
		if err := column.Hash(s.TokenHash).ScanBytes(hash); err != nil {
			return Session{}, err
		}
	}
	s.IssuedAt, s.ExpiresAt, s.RevokedAt = events.At(issued), events.At(expires), column.Time(revoked)
	return s, nil
}

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
