package bodypages_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
)

// lengths are body lengths on both sides of every limit.
var lengths = []int{0, 1, 28, 130, 478, 2000, bodypages.MaxBody - 1, bodypages.MaxBody, bodypages.MaxBody + 1, 40_000}

// write returns n leaves of an owner, with bodies of random lengths.
func write(chance *rand.Rand, a *fixture.Actor, n int) []fixture.Message {
	var messages []fixture.Message
	for range n {
		m := a.Memory(`{}`)
		length := lengths[chance.IntN(5)]
		if chance.IntN(100) == 0 {
			length = lengths[chance.IntN(len(lengths))]
		}
		m.Sealed = make([]byte, length)
		for i := range m.Sealed {
			m.Sealed[i] = byte(chance.Uint32())
		}
		messages = append(messages, a.Say(m))
	}
	return messages
}

// leaves returns the leaves that the memories table holds.
func leaves(t *testing.T, pool *pgxpool.Pool, owner events.Owner, from, to uint64) []bodypages.Leaf {
	t.Helper()
	rows, err := memories.Load(t.Context(), pool, owner, from, to)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]bodypages.Leaf, len(rows))
	for i := range rows {
		all[i].ID, _ = column.ParseUUID(rows[i].ID)
		all[i].Sealed = column.Bytes(rows[i].Sealed)
	}
	return all
}

// check compares every page of an owner with the owner's memories, and returns the pages.
func check(t *testing.T, pool *pgxpool.Pool, owner events.Owner, size uint64) []bodypages.Page {
	t.Helper()
	var all []bodypages.Page
	err := bodypages.Load(t.Context(), pool, owner, 0, 1<<40, func(p bodypages.Page) error {
		if p.First() != uint64(len(all))*bodypages.Leaves || p.Len() != bodypages.Leaves || p.End() != p.First()+bodypages.Leaves {
			t.Errorf("page %d: leaves %d to %d, %d of them", len(all), p.First(), p.End(), p.Len())
		}
		want := leaves(t, pool, owner, p.First(), p.End())
		for i, sealed := range p.Sealed {
			long := len(want[i].Sealed) > bodypages.MaxBody
			if long != (sealed == nil) || !long && !bytes.Equal(sealed, want[i].Sealed) || p.ID(i) != want[i].ID {
				t.Fatalf("page %d leaf %d is not the row's", len(all), i)
			}
			if id := string(p.AppendID(nil, i)); id != column.UUIDText(want[i].ID) {
				t.Fatalf("id %s", id)
			}
			if long != slices.Contains(p.Absent(), p.First()+uint64(i)) {
				t.Fatalf("page %d leaf %d: absent %v", len(all), i, !long)
			}
		}
		all = append(all, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if uint64(len(all)) != size/bodypages.Leaves {
		t.Errorf("%d pages of %d leaves", len(all), size)
	}
	for i, p := range all {
		rows, have := leaves(t, pool, owner, p.First(), p.End()), p.Leaves()
		for _, leaf := range p.Absent() {
			have[leaf-p.First()].Sealed = rows[leaf-p.First()].Sealed
		}
		if !bodypages.Of(p.First(), have).Equal(bodypages.Of(p.First(), rows)) {
			t.Errorf("page %d is not that of the rows", i)
		}
	}
	return all
}

// TestPagesAreThoseOfTheLeaves: for any division into slices, an owner has a page for
// every 256 leaves, and the page holds the same leaves as the memories table.
func TestPagesAreThoseOfTheLeaves(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	for seed := range uint64(3) {
		chance := rand.New(rand.NewPCG(seed, 1))
		a, b, c := fixture.NewActor(), fixture.NewActor(), fixture.NewActor()
		messages := slices.Concat(write(chance, a, 1000), write(chance, b, 512), write(chance, c, 255))
		messages = inOrder(chance, messages)
		for name, longest := range map[string]int{"short": 40, "long": 700, "whole": len(messages)} {
			pool := fixture.Pool(t, url, fmt.Sprint(name, seed))
			for at := 0; at < len(messages); {
				n := min(1+chance.IntN(longest), len(messages)-at)
				if longest == len(messages) {
					n = longest
				}
				fixture.Apply(t, pool, fixture.Slice(uint64(at+1), messages[at:at+n]...), memories.Projection{}, bodypages.Projection{})
				at += n
			}
			check(t, pool, a.Owner, 1000)
			check(t, pool, b.Owner, 512)
			check(t, pool, c.Owner, 255)
		}
	}
}

// inOrder shuffles messages, but keeps the order of each owner's messages.
func inOrder(chance *rand.Rand, messages []fixture.Message) []fixture.Message {
	byOwner := map[events.Owner][]fixture.Message{}
	var turns []events.Owner
	for _, m := range messages {
		owner := m.Events[0].Owner
		byOwner[owner], turns = append(byOwner[owner], m), append(turns, owner)
	}
	chance.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	mixed := make([]fixture.Message, len(turns))
	for i, owner := range turns {
		mixed[i], byOwner[owner] = byOwner[owner][0], byOwner[owner][1:]
	}
	return mixed
}

// TestAPageLacksNoLeaf: writing a page fails if one of its leaves is missing in the
// memories table, or if the page exists already.
func TestAPageLacksNoLeaf(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	chance := rand.New(rand.NewPCG(1, 1))
	a := fixture.NewActor()
	messages := write(chance, a, 600)
	fixture.Apply(t, pool, fixture.Slice(1, messages[:300]...), memories.Projection{}, bodypages.Projection{})
	if err := fixture.TryApply(pool, fixture.Slice(1, messages[:300]...), bodypages.Projection{}); err == nil {
		t.Error("a page was written twice")
	}
	if _, err := pool.Exec(t.Context(), `DELETE FROM memories WHERE leaf_index = 299`); err != nil {
		t.Fatal(err)
	}
	if err := fixture.TryApply(pool, fixture.Slice(301, messages[300:]...), memories.Projection{}, bodypages.Projection{}); err == nil {
		t.Error("a page without a leaf was written")
	}
	check(t, pool, a.Owner, 256)
}
