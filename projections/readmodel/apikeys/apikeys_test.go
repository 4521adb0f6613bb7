package apikeys_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/apikeys"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestKeysAreListedUsedAndRevoked(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	a, other := fixture.NewActor(), fixture.NewActor()
	key := func(label string) *events.ApiKeyCreated {
		return &events.ApiKeyCreated{KeyID: fixture.UUID(), KeyHash: fixture.Hash(label), Prefix: "svc_1234", Label: label}
	}
	one, two, foreign := key("one \x00 \U0001F511"), key("two"), key("foreign")
	expires := events.At(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	one.Scopes, one.ExpiresAt = []events.Scope{events.ScopeWrite, events.ScopeRetract}, &expires
	one.CreatedBy = &events.Via{Kind: events.ViaSession, ID: fixture.UUID()}
	created := a.Say(one)
	fixture.Apply(t, pool, fixture.Slice(1, created, a.Say(two), other.Say(foreign)), apikeys.Projection)
	use := a.Say(&events.ApiKeyUsed{KeyID: one.KeyID})
	lastUse := a.Say(&events.ApiKeyUsed{KeyID: one.KeyID})
	end := a.Say(&events.ApiKeyRevoked{KeyID: two.KeyID})
	fixture.Apply(t, pool, fixture.Slice(4, use, lastUse, end), apikeys.Projection)

	var (
		keys  []apikeys.Key
		after apikeys.Position
	)
	for _, want := range []int{1, 1, 0} { // a page of one, then the next
		page, err := apikeys.List(t.Context(), pool, a.Owner, after, 1)
		if err != nil || len(page) != want {
			t.Fatalf("after %d keys: %+v, %v", len(keys), page, err)
		}
		for _, k := range page {
			after = k.At
		}
		keys = append(keys, page...)
	}
	if keys[0].ID != one.KeyID || keys[1].ID != two.KeyID {
		t.Fatalf("list: %+v", keys)
	}
	if all, err := apikeys.List(t.Context(), pool, a.Owner, apikeys.Position{}, 10); err != nil || !reflect.DeepEqual(all, keys) {
		t.Errorf("in one page: %+v, %v", all, err)
	}
	want := apikeys.Key{ID: one.KeyID, Owner: a.Owner, Hash: one.KeyHash, Prefix: one.Prefix, Label: one.Label, Scopes: one.Scopes, CreatedAt: created.Events[0].Time, ExpiresAt: one.ExpiresAt, CreatedBy: one.CreatedBy, At: keys[0].At}
	got := keys[0]
	if got.LastUsedAt == nil || *got.LastUsedAt != lastUse.Events[0].Time {
		t.Errorf("last used %v", got.LastUsedAt)
	}
	if got.LastUsedAt = nil; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	for left, n := range map[time.Duration]int{time.Millisecond: 1, 0: 0} {
		active, err := apikeys.Active(t.Context(), pool, a.Owner, expires.Time().Add(-left))
		if err != nil || len(active) != n || n > 0 && active[0].ID != one.KeyID {
			t.Errorf("%v before it expires: %+v, %v", left, active, err)
		}
	}
	if len(keys[1].Scopes) != 0 || keys[1].ExpiresAt != nil {
		t.Errorf("a key without scopes and expiry: %+v", keys[1])
	}
	dead, found, err := apikeys.ByHash(t.Context(), pool, two.KeyHash)
	if err != nil || !found || dead.RevokedAt == nil || *dead.RevokedAt != end.Events[0].Time {
		t.Errorf("revoked: %+v, %v, %v", dead, found, err)
	}
	for _, by := range []byte{1, 0xff} {
		near := two.KeyHash
		near[len(near)-1] += by
		if got, found, err := apikeys.ByHash(t.Context(), pool, near); found || err != nil {
			t.Errorf("a key's neighbour: %+v, %v, %v", got, found, err)
		}
	}
	if _, found, err := apikeys.ByHash(t.Context(), pool, fixture.Hash("nobody's")); found || err != nil {
		t.Errorf("a key nobody made: %v, %v", found, err)
	}
}
