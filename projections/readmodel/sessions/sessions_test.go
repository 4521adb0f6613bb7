package sessions_test

import (
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/sessions"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestSessionsLiveAndEnd(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	a, other := fixture.NewActor(), fixture.NewActor()
	issue := func(audience events.Audience, token string, expires time.Time) *events.SessionIssued {
		s := &events.SessionIssued{SessionID: fixture.UUID(), Audience: audience, ExpiresAt: events.At(expires)}
		if token != "" {
			hash := fixture.Hash(token)
			s.TokenHash = &hash
		}
		return s
	}
	core := issue(events.AudienceCore, "", now.Add(time.Hour))
	live := issue(events.AudienceExtension, "live", now.Add(time.Hour))
	later := issue(events.AudienceExtension, "later", now.Add(time.Minute))
	expired := issue(events.AudienceExtension, "expired", now)
	dead := issue(events.AudienceExtension, "dead", now.Add(time.Hour))
	foreign := issue(events.AudienceExtension, "foreign", now.Add(time.Hour))
	first := a.Say(live, core)
	fixture.Apply(t, pool, fixture.Slice(1, first, a.Say(later), a.Say(expired), a.Say(dead), other.Say(foreign)), sessions.Projection)
	revocation := a.Say(&events.SessionRevoked{SessionID: dead.SessionID})
	fixture.Apply(t, pool, fixture.Slice(6, revocation, a.Say(&events.SessionRevoked{SessionID: dead.SessionID})), sessions.Projection)

	got, found, err := sessions.ByTokenHash(t.Context(), pool, *live.TokenHash)
	if err != nil || !found || got.ID != live.SessionID || got.Owner != a.Owner || got.Audience != events.AudienceExtension ||
		*got.TokenHash != *live.TokenHash || got.IssuedAt != first.Events[0].Time || got.ExpiresAt != live.ExpiresAt || got.RevokedAt != nil {
		t.Errorf("live: %+v, %v, %v", got, found, err)
	}
	got, found, err = sessions.ByTokenHash(t.Context(), pool, *dead.TokenHash)
	if err != nil || !found || got.RevokedAt == nil || *got.RevokedAt != revocation.Events[0].Time {
		t.Errorf("dead: %+v, %v, %v", got, found, err)
	}
	if _, found, err := sessions.ByTokenHash(t.Context(), pool, fixture.Hash("nobody's")); found || err != nil {
		t.Errorf("a token nobody got: %v, %v", found, err)
	}
	for _, by := range []byte{1, 0xff} {
		near := *live.TokenHash
		near[len(near)-1] += by
		if got, found, err := sessions.ByTokenHash(t.Context(), pool, near); found || err != nil {
			t.Errorf("a token's neighbour: %+v, %v, %v", got, found, err)
		}
	}
	active, err := sessions.Active(t.Context(), pool, a.Owner, now)
	if err != nil || len(active) != 3 || active[0].ID != live.SessionID && active[1].ID != live.SessionID || active[2].ID != later.SessionID {
		t.Errorf("active: %+v, %v", active, err)
	}
	for id, dead := range map[string]bool{core.SessionID: false, dead.SessionID: true} {
		if got, found, err := sessions.ByID(t.Context(), pool, a.Owner, id); err != nil || !found || got.ID != id || (got.RevokedAt != nil) != dead {
			t.Errorf("by id: %+v, %v, %v", got, found, err)
		}
	}
	for _, id := range []string{foreign.SessionID, fixture.UUID(), "", "no uuid"} {
		if _, found, err := sessions.ByID(t.Context(), pool, a.Owner, id); found || err != nil {
			t.Errorf("id %q: %v, %v", id, found, err)
		}
	}
}
