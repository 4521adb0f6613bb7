package grants_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/grants"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestGrantsAreSpentRevokedAndExpire(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	a, other := fixture.NewActor(), fixture.NewActor()
	mint := func(kind events.GrantKind, uses int, expires time.Time) *events.GrantMinted {
		id := fixture.UUID()
		return &events.GrantMinted{GrantID: id, Kind: kind, TokenHash: fixture.Hash(id), ExpiresAt: events.At(expires), MaxUses: uses}
	}
	live, spent := mint(events.GrantDrop, 3, now.Add(time.Minute)), mint(events.GrantDrop, 1, now.Add(time.Minute))
	expired, revoked := mint(events.GrantCase, 1, now), mint(events.GrantCase, 1, now.Add(time.Minute))
	foreign := mint(events.GrantDrop, 1, now.Add(time.Minute))
	live.By = &events.Via{Kind: events.ViaKey, ID: fixture.UUID()}
	minted := a.Say(live)
	fixture.Apply(t, pool, fixture.Slice(1, minted, a.Say(spent), a.Say(expired), a.Say(revoked), other.Say(foreign),
		a.Say(&events.GrantConsumed{GrantID: live.GrantID, Kind: live.Kind, Use: 1, Remaining: 2}, a.Memory(`{}`))), grants.Projection)
	end := a.Say(&events.GrantRevoked{GrantID: revoked.GrantID, Kind: revoked.Kind, Reason: events.Superseded})
	fixture.Apply(t, pool, fixture.Slice(7, end,
		a.Say(&events.GrantConsumed{GrantID: spent.GrantID, Kind: spent.Kind, Use: 1}, a.Memory(`{}`)),
		a.Say(&events.GrantConsumed{GrantID: live.GrantID, Kind: live.Kind, Use: 2, Remaining: 1}, a.Memory(`{}`))), grants.Projection)

	want := grants.Grant{
		ID: live.GrantID, Owner: a.Owner, Kind: events.GrantDrop, TokenHash: live.TokenHash,
		MintedAt: minted.Events[0].Time, ExpiresAt: live.ExpiresAt, MaxUses: 3, Used: 2, By: live.By,
	}
	if got, found, err := grants.ByTokenHash(t.Context(), pool, live.TokenHash); err != nil || !found || !reflect.DeepEqual(got, want) {
		t.Errorf("by token: %+v, %v, %v", got, found, err)
	}
	over := want.ExpiresAt.Time()
	if !want.Live(over.Add(-1)) || want.Live(over) {
		t.Errorf("before its end it is alive: %t, at its end: %t", want.Live(over.Add(-1)), want.Live(over))
	}
	for _, by := range []byte{1, 0xff} {
		near := live.TokenHash
		near[len(near)-1] += by
		if got, found, err := grants.ByTokenHash(t.Context(), pool, near); err != nil || found || got != (grants.Grant{}) {
			t.Errorf("by a token's neighbour: %+v, %v, %v", got, found, err)
		}
	}
	if got, found, err := grants.ByID(t.Context(), pool, a.Owner, live.GrantID); err != nil || !found || !reflect.DeepEqual(got, want) {
		t.Errorf("by id: %+v, %v, %v", got, found, err)
	}
	for _, id := range []string{foreign.GrantID, fixture.UUID(), "", "no uuid"} {
		if _, found, err := grants.ByID(t.Context(), pool, a.Owner, id); found || err != nil {
			t.Errorf("id %q: %v, %v", id, found, err)
		}
	}
	if got, found, err := grants.ByTokenHash(t.Context(), pool, revoked.TokenHash); err != nil || !found || got.RevokedAt == nil || *got.RevokedAt != end.Events[0].Time {
		t.Errorf("revoked: %+v, %v, %v", got, found, err)
	}
	if active, err := grants.Active(t.Context(), pool, a.Owner, now); err != nil || len(active) != 1 || !reflect.DeepEqual(active[0], want) {
		t.Errorf("active: %+v, %v", active, err)
	}
}
