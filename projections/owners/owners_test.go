package owners_test

import (
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/world"
	"github.com/memory-ledger/ledger/projections/memories"
	"github.com/memory-ledger/ledger/projections/owners"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
)

// TestAnOwnerIsFound after each message, whatever brought the newest: the row says
// what the memories do not, and both together say how the owner stands.
func TestAnOwnerIsFound(t *testing.T) {
	t.Parallel()
	for name, projection := range map[string]projector.Projection{"asking": owners.Projection{}, "remembering": owners.Projection{}.Begin()} {
		_, pool := world.Database(t)
		a, stranger := world.NewActor(), world.NewActor()
		user, grant := world.UUID(), world.UUID()
		register := a.Say(&events.OwnerRegistered{UserID: user})
		want := owners.Owner{Owner: a.Owner, UserID: user, RegisteredAt: register.Events[0].Time}
		for i, said := range []struct {
			message                                      world.Message
			version, leaves, chainVersion, chainSequence uint64
		}{
			{register, 1, 0, 0, 0},
			{a.Write(`{}`), 2, 1, 0, 0},
			{a.Write(`{}`), 3, 2, 0, 0},
			{a.Say(&events.BatchFailed{BatchID: world.UUID()}), 3, 2, 1, 4},
			{a.Write(`{}`), 4, 3, 1, 4},
			{a.Say(&events.OwnerRegistered{UserID: world.UUID()}), 5, 3, 1, 4}, // the first stays
			{a.Say(&events.GrantMinted{GrantID: grant, Kind: events.GrantDrop, MaxUses: 1}), 6, 3, 1, 4},
			{a.Say(&events.GrantConsumed{GrantID: grant, Kind: events.GrantDrop, Use: 1}, a.Memory(`{}`)), 7, 4, 1, 4},
			{a.Say(&events.BatchFailed{BatchID: world.UUID()}), 7, 4, 2, 9},
			{a.Say(&events.SessionRevoked{SessionID: world.UUID()}), 8, 4, 2, 9},
		} {
			seq := uint64(i + 1)
			world.Apply(t, pool, world.Slice(seq, said.message), projection, memories.Projection{})
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

// TestMemoriesOfKnownOwnersCostNothing: neither a question nor a statement.
func TestMemoriesOfKnownOwnersCostNothing(t *testing.T) {
	t.Parallel()
	_, pool := world.Database(t)
	a, b := world.NewActor(), world.NewActor()
	p := owners.Projection{}.Begin()
	var seq uint64
	steps := func(q schema.Querier, messages ...world.Message) int {
		t.Helper()
		slice := world.Slice(seq+1, messages...)
		seq += uint64(len(messages))
		w := projector.NewWriter(q)
		if err := p.Apply(t.Context(), w, slice); err != nil {
			t.Fatal(err)
		}
		return len(w.Steps())
	}
	register := func(a *world.Actor) world.Message { return a.Say(&events.OwnerRegistered{UserID: world.UUID()}) }
	if n := steps(pool, register(a), a.Write(`{}`), register(b)); n != 1 {
		t.Errorf("%d statements for new owners", n)
	}
	if n := steps(pool, a.Write(`{}`), b.Write(`{}`)); n != 1 { // the row of b names the newest message no longer
		t.Errorf("%d statements for the first leaf", n)
	}
	for range 3 {
		if n := steps(nil, a.Write(`{}`), b.Write(`{}`), a.Write(`{}`)); n != 0 { // to ask nil is to panic
			t.Errorf("%d statements for memories", n)
		}
	}
	if n := steps(nil, a.Write(`{}`), a.Say(&events.SessionRevoked{SessionID: world.UUID()})); n != 1 {
		t.Errorf("%d statements for what is no memory", n)
	}
}

// TestPlansOfAnEmptyTableLastWhileItGrows: see the test of that name in package
// memories.
func TestPlansOfAnEmptyTableLastWhileItGrows(t *testing.T) {
	t.Parallel()
	const few, many = 10, 2000
	url, _ := world.Database(t)
	pool, err := schema.OpenPool(t.Context(), url, schema.Live, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	a := world.NewActor()
	messages := []world.Message{a.Say(&events.OwnerRegistered{UserID: world.UUID()})}
	for range many {
		messages = append(messages, a.Write(`{}`))
	}
	find := func(leaves uint64) {
		t.Helper()
		if o, found, err := owners.Find(t.Context(), pool, a.Owner); err != nil || !found || o.LeafCount != leaves {
			t.Fatalf("%+v, %v, %v", o, found, err)
		}
	}
	world.Apply(t, pool, world.Slice(1, messages[:few+1]...), owners.Projection{}, memories.Projection{})
	for range 10 { // PostgreSQL keeps a plan from the sixth time on
		find(few)
	}
	world.Apply(t, pool, world.Slice(few+2, messages[few+1:]...), owners.Projection{}, memories.Projection{})
	before := world.RowsRead(t, pool, "memories")
	find(many)
	if read := world.RowsRead(t, pool, "memories") - before; read > 1 {
		t.Errorf("%d rows of %d were read for the newest", read, many)
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
		"a leaf that no column holds":     {{1 << 63}},
		"the number that wraps around":    {{1<<64 - 1, 0}},
	} {
		for _, p := range []projector.Projection{owners.Projection{}, owners.Projection{}.Begin()} {
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
				err = world.TryApply(pool, world.Slice(1, messages...), p, memories.Projection{})
			}
			if err == nil {
				t.Errorf("%s went through", name)
			}
		}
	}
}
