package grant_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/grant"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestAGrantIsOverAtItsTime: from expiresAt on, the status of a grant says that it has
// expired.
func TestAGrantIsOverAtItsTime(t *testing.T) {
	t.Parallel()
	database := pgtest.Database(t)
	must(t, schema.Migrate(t.Context(), database, schema.Live))
	pool, err := schema.OpenPool(t.Context(), database, schema.Live, 1)
	must(t, err)
	t.Cleanup(pool.Close)
	owner, id, expires := logtest.Owner(), uuid.NewString(), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	if _, err := pool.Exec(t.Context(), `INSERT INTO grants (id, owner, kind, token_hash, minted_at, expires_at, max_uses, used, seq)
		VALUES ($1, $2, $3, sha256('token'), $4, $5, 3, 1, 1)`, id, string(owner), string(events.GrantDrop), expires.Add(-time.Minute), expires); err != nil {
		t.Fatal(err)
	}
	now := expires
	grants := grant.New(grant.Config{Query: pool, Now: func() time.Time { return now }})
	for after, want := range map[time.Duration]bool{-time.Millisecond: false, 0: true, time.Millisecond: true} {
		now = expires.Add(after)
		s, err := grants.Status(t.Context(), owner, events.GrantDrop, id)
		if want := (grant.Status{Used: 1, Remaining: 2, Expired: want}); err != nil || s != want {
			t.Errorf("%s after its time: %+v, %v, want %+v", after, s, err, want)
		}
	}
}
