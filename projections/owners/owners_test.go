package owners_test

import (
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/world"
	"github.com/memory-ledger/ledger/projections/owners"
)

func TestAnOwnerIsFound(t *testing.T) {
	t.Parallel()
	_, pool := world.Database(t)
	a, stranger := world.NewActor(), world.NewActor()
	user := world.UUID()
	register := a.Say(&events.OwnerRegistered{UserID: user})
	world.Apply(t, pool, world.Slice(1, register, a.Write(`{}`), a.Write(`{}`)), owners.Projection{})
	world.Apply(t, pool, world.Slice(4, a.Say(&events.BatchFailed{BatchID: world.UUID()}), a.Write(`{}`),
		a.Say(&events.OwnerRegistered{UserID: world.UUID()})), owners.Projection{})
	got, found, err := owners.Find(t.Context(), pool, a.Owner)
	want := owners.Owner{
		Owner: a.Owner, UserID: user, RegisteredAt: register.Events[0].Time,
		Version: 5, LastSeq: 6, LeafCount: 3, ChainVersion: 1, ChainLastSeq: 4,
	}
	if err != nil || !found || got != want {
		t.Errorf("found %v, %v:\n%+v\nwant\n%+v", found, err, got, want)
	}
	if _, found, err := owners.Find(t.Context(), pool, stranger.Owner); found || err != nil {
		t.Errorf("a stranger is found: %v, %v", found, err)
	}
}

func TestAnOwnerOfTheChainAlone(t *testing.T) {
	t.Parallel()
	_, pool := world.Database(t)
	a := world.NewActor()
	world.Apply(t, pool, world.Slice(1, a.Say(&events.StakeDeposited{})), owners.Projection{})
	got, found, err := owners.Find(t.Context(), pool, a.Owner)
	if err != nil || !found || got.UserID != "" || !got.RegisteredAt.IsZero() || got.ChainVersion != 1 || got.Version != 0 {
		t.Errorf("%+v, %v, %v", got, found, err)
	}
}

func TestLeavesThatDoNotContinueAreRefused(t *testing.T) {
	t.Parallel()
	_, pool := world.Database(t)
	leaf := func(a *world.Actor, index uint64) world.Message {
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
	} {
		a := world.NewActor()
		var err error
		for _, slice := range indexes {
			if err != nil {
				t.Fatalf("%s: refused too early: %v", name, err)
			}
			var messages []world.Message
			for _, index := range slice {
				messages = append(messages, leaf(a, index))
			}
			err = world.TryApply(pool, world.Slice(1, messages...), owners.Projection{})
		}
		if err == nil {
			t.Errorf("%s went through", name)
		}
	}
}
