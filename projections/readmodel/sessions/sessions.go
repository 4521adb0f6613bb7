// Package sessions is the read model of sign-ins.
package sessions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Session is one sign-in.
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

// ByTokenHash returns the extension session whose token has this SHA-256,
// live or dead. A miss takes as long as a hit: the nearest row is fetched and
// read in both cases. So the time does not reveal which tokens ever existed.
func ByTokenHash(ctx context.Context, q schema.Querier, hash events.Hash) (Session, bool, error) {
	s, err := scan(q.QueryRow(ctx, `SELECT `+columns+` FROM sessions WHERE token_hash >= $1 ORDER BY token_hash, seq LIMIT 1`, hash[:]))
	if errors.Is(err, pgx.ErrNoRows) {
		return Session{}, false, nil
	}
	if err != nil {
		return Session{}, false, fmt.Errorf("session by token: %w", err)
	}
	if *s.TokenHash != hash {
		return Session{}, false, nil
	}
	return s, true, nil
}

// ByID returns a session of the owner, live or dead. The id of another owner's session
// is not found, and neither is a text that is not an id.
func ByID(ctx context.Context, q schema.Querier, owner events.Owner, id string) (Session, bool, error) {
	key, ok := column.ParseUUID(id)
	if !ok {
		return Session{}, false, nil
	}
	s, err := scan(q.QueryRow(ctx, `SELECT `+columns+` FROM sessions WHERE id = $1 AND owner = $2`, key[:], string(owner)))
	if errors.Is(err, pgx.ErrNoRows) {
		return Session{}, false, nil
	}
	if err != nil {
		return Session{}, false, fmt.Errorf("session by id: %w", err)
	}
	return s, true, nil
}

// Active returns the owner's sessions of both APIs that are neither revoked nor
// expired, oldest first.
func Active(ctx context.Context, q schema.Querier, owner events.Owner, now time.Time) ([]Session, error) {
	rows, err := q.Query(ctx, `SELECT `+columns+` FROM sessions
		WHERE owner = $1 AND revoked_at IS NULL AND expires_at > $2
		ORDER BY seq, id`, string(owner), now)
	if err == nil {
		var list []Session
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (Session, error) { return scan(row) })
		if err == nil {
			return list, nil
		}
	}
	return nil, fmt.Errorf("active sessions: %w", err)
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
