package apikeys

import (
	"context"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/projector"
)

// Projection folds keys, their use and their end.
type Projection struct{}

var _ projector.Projection = Projection{}

// Name implements projector.Projection.
func (Projection) Name() string { return "apikeys" }

// Tables implements projector.Projection.
func (Projection) Tables() []string { return []string{"api_keys"} }

type created struct {
	id, hash, label       [][]byte
	owner, prefix, scopes []string
	at                    []time.Time
	expires               []*time.Time
	seq                   []int64
}

// Apply implements projector.Projection.
func (Projection) Apply(_ context.Context, w *projector.Writer, s projector.Slice) error {
	var (
		add  created
		used column.Lasts
		end  column.Firsts
	)
	for r, e := range s.Events() {
		var err error
		switch data := e.Data.(type) {
		case *events.ApiKeyCreated:
			err = add.add(r, e, data)
		case *events.ApiKeyUsed:
			err = withID(r, e, data.KeyID, used.Add)
		case *events.ApiKeyRevoked:
			err = withID(r, e, data.KeyID, end.Add)
		}
		if err != nil {
			return err
		}
	}
	if len(add.id) > 0 {
		w.Exec(`INSERT INTO api_keys (id, owner, hash, prefix, label, scopes, created_at, expires_at, seq)
			SELECT * FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::text[], $5::bytea[], $6::text[], $7::timestamptz[], $8::timestamptz[], $9::bigint[])`,
			add.id, add.owner, add.hash, add.prefix, add.label, add.scopes, add.at, add.expires, add.seq)
	}
	if len(used.ID) > 0 {
		w.Exec(`UPDATE api_keys k SET last_used_at = greatest(k.last_used_at, d.at)
			FROM unnest($1::uuid[], $2::timestamptz[]) AS d (id, at) WHERE k.id = d.id`, used.ID, used.At)
	}
	if len(end.ID) > 0 {
		w.Exec(`UPDATE api_keys k SET revoked_at = d.at
			FROM unnest($1::uuid[], $2::timestamptz[]) AS d (id, at)
			WHERE k.id = d.id AND k.revoked_at IS NULL`, end.ID, end.At)
	}
	return nil
}

func (c *created) add(r *projector.Record, e *events.Event, data *events.ApiKeyCreated) error {
	id, ok := column.ParseUUID(data.KeyID)
	if !ok {
		return projector.Unexpected(r, e, "the key id is not a UUID")
	}
	c.id, c.hash, c.label = append(c.id, id[:]), append(c.hash, data.KeyHash[:]), append(c.label, []byte(data.Label))
	c.owner, c.prefix = append(c.owner, string(e.Owner)), append(c.prefix, data.Prefix)
	c.scopes, c.expires = append(c.scopes, events.JoinScopes(data.Scopes)), append(c.expires, column.TimeArg(data.ExpiresAt))
	c.at, c.seq = append(c.at, e.Time.Time()), append(c.seq, int64(r.Seq))
	return nil
}

func withID(r *projector.Record, e *events.Event, keyID string, add func(column.UUID, time.Time)) error {
	id, ok := column.ParseUUID(keyID)
	if !ok {
		return projector.Unexpected(r, e, "the key id is not a UUID")
	}
	add(id, e.Time.Time())
	return nil
}
