package owners_test

import (
	"testing"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestLeavesThatDoNotContinueAreRefused(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	leaf := func(a *fixture.Actor, index uint64) fixture.Message {
		m := a.Memory(`{}`)
		m.LeafIndex = index
		return a.Say(m)
	}
	for name, indexes := range map[string][][]uint64{
		"a log that begins at 1":       {{1}},
		"a hole within a slice":        {{0, 2}},
		"a leaf twice within a slice":  {{0, 0}},
		"a hole between slices":        {{0, 1}, {3}},
		"a leaf twice in two slices":   {{0, 1}, {1}},
		"a leaf that no column holds":  {{1 << 63}},
		"the number that wraps around": {{1<<64 - 1, 0}},
	} {
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
			err = fixture.TryApply(pool, fixture.Slice(1, messages...), owners.Projection{}, memories.Projection{})
		}
		if err == nil {
			t.Errorf("%s went through", name)
		}
	}
}
