package owners_test

import (
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestAnOwnerIsFound: Find returns the right state after each message, of any type: it
// combines the row with the memories table.
func TestAnOwnerIsFound(t *testing.T) {
	t.Parallel()
	for name, projection := range map[string]projector.Projection{"asking": owners.Projection{}, "remembering": owners.Projection{}.Begin()} {
		_, pool := fixture.Database(t)
		a, stranger := fixture.NewActor(), fixture.NewActor()
		user, grant := fixture.UUID(), fixture.UUID()
		register := a.Say(&events.OwnerRegistered{UserID: user})
		want := owners.Owner{Owner: a.Owner, UserID: user, RegisteredAt: register.Events[0].Time}
		for i, said := range []struct {
			message                                      fixture.Message
			version, leaves, chainVersion, chainSequence uint64
		}{
			{register, 1, 0, 0, 0},
			{a.Write(`{}`), 2, 1, 0, 0},
			{a.Write(`{}`), 3, 2, 0, 0},
			{a.Say(&events.BatchFailed{BatchID: fixture.UUID()}), 3, 2, 1, 4},
			{a.Write(`{}`), 4, 3, 1, 4},
			{a.Say(&events.OwnerRegistered{UserID: fixture.UUID()}), 5, 3, 1, 4}, // the first user id stays
			{a.Say(&events.GrantMinted{GrantID: grant, Kind: events.GrantDrop, MaxUses: 1}), 6, 3, 1, 4},
			{a.Say(&events.GrantConsumed{GrantID: grant, Kind: events.GrantDrop, Use: 1}, a.Memory(`{}`)), 7, 4, 1, 4},
			{a.Say(&events.BatchFailed{BatchID: fixture.UUID()}), 7, 4, 2, 9},
			{a.Say(&events.SessionRevoked{SessionID: fixture.UUID()}), 8, 4, 2, 9},
		} {
			seq := uint64(i + 1)
			fixture.Apply(t, pool, fixture.Slice(seq, said.message), projection, memories.Projection{})
			if said.message.Family == events.FamilyLedger {
				want.LastSeq = seq
			}
			want.Version, want.LeafCount, want.ChainVersion, want.ChainLastSeq = said.version, said.leaves, said.chainVersion, said.chainSequence
			if got, found, err := owners.Find(t.Context(), pool, a.Owner); err != nil || !found || got != want {
				t.Errorf("%s, after %d: found %v, %v:\n%+v\nwant\n%+v", name, seq, found, err, got, want)
			}
		}
		if _, found, err := owners.Find(t.Context(), pool, stranger.Owner); found || err != nil {
			t.Errorf("a stranger is found: %v, %v", found, err)
		}
	}
}

func TestAnOwnerOfTheChainAlone(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	a := fixture.NewActor()
	fixture.Apply(t, pool, fixture.Slice(1, a.Say(&events.StakeDeposited{})), owners.Projection{})
	got, found, err := owners.Find(t.Context(), pool, a.Owner)
	if err != nil || !found || got.UserID != "" || !got.RegisteredAt.IsZero() || got.ChainVersion != 1 || got.Version != 0 {
		t.Errorf("%+v, %v, %v", got, found, err)
	}
}

func TestLeavesThatDoNotContinueAreRefused(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	leaf := func(a *fixture.Actor, index uint64) fixture.Message {
		m := a.Memory(`{}`)
		m.LeafIndex = index
		return a.Say(m)
	}
	for name, indexes := range map[string][][]uint64{
		"a log that begins at 1":          {{1}},
		"a hole within a slice":           {{0, 2}},
		"a leaf twice within a slice":     {{0, 0}},
		"a hole between slices":           {{0, 1}, {3}},
		"a leaf twice in two slices":      {{0, 1}, {1}},
		"a leaf far beyond what there is": {{0}, {1 << 62}},
		"a leaf that no column holds":     {{1 << 63}},
		"the number that wraps around":    {{1<<64 - 1, 0}},
	} {
		for _, p := range []projector.Projection{owners.Projection{}, owners.Projection{}.Begin()} {
			a := fixture.NewActor()
			var err error
			for _, slice := range indexes {
				if err != nil {
					t.Fatalf("%s: refused too early: %v", name, err)
				}
				var messages []fixture.Message
				for _, index := range slice {
					messages = append(messages, leaf(a, index))
				}
				err = fixture.TryApply(pool, fixture.Slice(1, messages...), p, memories.Projection{})
			}
			if err == nil {
				t.Errorf("%s went through", name)
			}
		}
	}
}
