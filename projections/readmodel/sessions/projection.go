package sessions

import (
	"context"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection folds sign-ins and their ends.
type Projection struct{}

var _ projector.Projection = Projection{}

// Name implements projector.Projection.
func (Projection) Name() string { return "sessions" }

// Tables implements projector.Projection.
func (Projection) Tables() []string { return []string{"sessions"} }

// issued is rows to add, column by column.
type issued struct {
	id, tokenHash     [][]byte
	owner, audience   []string
	issuedAt, expires []time.Time
	seq               []int64
}

// Apply implements projector.Projection. Revocations come after the sessions
// that the same slice issued, so that order within a slice does not matter.
func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	var (
		add issued
		end column.Firsts
	)
	for r, e := range s.Events() {
		switch data := e.Data.(type) {
		case *events.SessionIssued:
			id, ok := column.ParseUUID(data.SessionID)
			if !ok {
				return projector.Unexpected(r, e, "the session id is not a UUID")
			}
			add.id, add.tokenHash = append(add.id, id[:]), append(add.tokenHash, column.HashArg(data.TokenHash))
			add.owner, add.audience = append(add.owner, string(e.Owner)), append(add.audience, string(data.Audience))
			add.issuedAt, add.expires = append(add.issuedAt, e.Time.Time()), append(add.expires, data.ExpiresAt.Time())
			add.seq = append(add.seq, int64(r.Seq))
		case *events.SessionRevoked:
			id, ok := column.ParseUUID(data.SessionID)
			if !ok {
				return projector.Unexpected(r, e, "the session id is not a UUID")
			}
			end.Add(id, e.Time.Time())
		}
	}
	if len(add.id) > 0 {
		w.Exec(`INSERT INTO sessions (id, owner, audience, token_hash, issued_at, expires_at, seq)
			SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::timestamptz[], $6::timestamptz[], $7::bigint[])`,
			add.id, add.owner, add.audience, add.tokenHash, add.issuedAt, add.expires, add.seq)
	}
	if len(end.ID) > 0 {
		w.Exec(`UPDATE sessions s SET revoked_at = d.at
			FROM unnest($1::uuid[], $2::timestamptz[]) AS d (id, at)
			WHERE s.id = d.id AND s.revoked_at IS NULL`, end.ID, end.At)
	}
	return nil
}
