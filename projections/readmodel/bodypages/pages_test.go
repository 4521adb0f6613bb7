package bodypages_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/schema"
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

// TestAnOlderSchemaGetsPages: the migration makes pages of the leaves that were written
// before pages existed, and the projection continues from there.
func TestAnOlderSchemaGetsPages(t *testing.T) {
	t.Parallel()
	url, pool := fixture.Database(t)
	chance := rand.New(rand.NewPCG(2, 1))
	a, b := fixture.NewActor(), fixture.NewActor()
	messages := inOrder(chance, slices.Concat(write(chance, a, 900), write(chance, b, 255)))
	later := write(chance, a, 200)
	fixture.Apply(t, pool, fixture.Slice(1, messages...), memories.Projection{})
	beforePages(t, pool)
	if err := schema.Migrate(t.Context(), url, schema.Live); err != nil {
		t.Fatal(err)
	}
	check(t, pool, a.Owner, 900)
	check(t, pool, b.Owner, 255)
	fixture.Apply(t, pool, fixture.Slice(uint64(len(messages)+1), later...), memories.Projection{}, bodypages.Projection{})
	check(t, pool, a.Owner, 1100)
}

// beforePages undoes the migrations from the one that made body_pages on.
func beforePages(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("../../schema/migrations"), goose.WithLogger(goose.NopLogger()))
	if err == nil {
		_, err = provider.DownTo(t.Context(), 2)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// good returns a valid page of the table, and its leaves.
func good() (data []byte, made []bodypages.Leaf) {
	data = append([]byte("MLP1\x00\x00\x01\x00"), 0, 0, 0, 0, 0, 0, 2, 0)
	for i := range bodypages.Leaves {
		data = append(data, make([]byte, 15)...)
		data = append(data, byte(i))
	}
	for i := range bodypages.Leaves {
		length := uint32(i % 7)
		if i%50 == 3 {
			length = 0xffffffff
		}
		data = binary.BigEndian.AppendUint32(data, length)
	}
	for i := range bodypages.Leaves {
		l := bodypages.Leaf{ID: [16]byte{15: byte(i)}}
		if i%50 != 3 {
			l.Sealed = bytes.Repeat([]byte{byte(i)}, i%7)
		}
		data, made = append(data, l.Sealed...), append(made, l)
	}
	return data, made
}

func TestParse(t *testing.T) {
	t.Parallel()
	data, want := good()
	p, err := bodypages.Parse(data, 512)
	if err != nil || !slices.EqualFunc(p.Leaves(), want, func(a, b bodypages.Leaf) bool {
		return a.ID == b.ID && bytes.Equal(a.Sealed, b.Sealed) && (a.Sealed == nil) == (b.Sealed == nil)
	}) || !p.Equal(bodypages.Of(512, want)) || p.Bytes() < len(data) {
		t.Fatalf("%+v, %v", p, err)
	}
	for i, sealed := range p.Sealed {
		if len(sealed) != cap(sealed) {
			t.Errorf("what is appended to the body of leaf %d is written over the next", i)
		}
	}
	for name, damage := range map[string]func(b []byte) []byte{
		"nothing":         func([]byte) []byte { return nil },
		"another version": func(b []byte) []byte { b[3]++; return b },
		"fewer leaves":    func(b []byte) []byte { b[6], b[7] = 0, 255; return b },
		"no leaves":       func([]byte) []byte { return append([]byte("MLP1\x00\x00\x00\x00"), 0, 0, 0, 0, 0, 0, 2, 0) },
		"many leaves":     func(b []byte) []byte { b[4] = 0xff; return b },
		"another page":    func(b []byte) []byte { b[14]++; return b },
		"far away":        func(b []byte) []byte { b[8] = 0xff; return b },
		"cut short":       func(b []byte) []byte { return b[:len(b)-1] },
		"cut in a length": func(b []byte) []byte { return b[:16+256*16+7] },
		"too long":        func(b []byte) []byte { return append(b, 0) },
		"a longer body":   func(b []byte) []byte { b[16+256*16+3]++; return b },
		"a huge body":     func(b []byte) []byte { b[16+256*16]++; return b },
	} {
		if _, err := bodypages.Parse(damage(slices.Clone(data)), 512); !errors.Is(err, bodypages.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParse: Parse does not panic on any input. A page that it accepts encodes to the
// same bytes again.
func FuzzParse(f *testing.F) {
	data, _ := good()
	f.Add(data, uint64(512))
	f.Add(data[:40], uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, first uint64) {
		p, err := bodypages.Parse(data, first)
		if err != nil {
			return
		}
		if p.First() != first || p.Len() != bodypages.Leaves || !p.Equal(bodypages.Of(first, p.Leaves())) {
			t.Fatalf("%x is not what was read of it", data)
		}
	})
}
