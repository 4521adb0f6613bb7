package tree_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/tree"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// grow writes leaves through the projections, in slices of any length.
func grow(t *testing.T, pool *pgxpool.Pool, owner events.Owner, leaves []events.Hash, chance *rand.Rand, longest int) {
	t.Helper()
	for index := 0; index < len(leaves); {
		n := min(1+chance.IntN(longest), len(leaves)-index)
		slice := projector.Slice{First: uint64(index + 1), Last: uint64(index + n)}
		for range n {
			slice.Records = append(slice.Records, record(owner, index, leaves[index]))
			index++
		}
		fixture.Apply(t, pool, slice, memories.Projection{}, tree.Projection{})
	}
}

func record(owner events.Owner, index int, hash events.Hash) projector.Record {
	return projector.Record{Seq: uint64(index + 1), Family: events.FamilyLedger, Owner: owner, Events: []events.Event{{
		Owner: owner, OwnerVersion: index + 1,
		Data: &events.MemoryWritten{MemoryID: fixture.UUID(), LeafIndex: uint64(index), LeafHash: hash, Metadata: []byte(`{}`), Sealed: []byte{0}},
	}}}
}

func TestEverySmallSizeFromTheCache(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	owner, leaves := fixture.NewActor().Owner, leafHashes(everySize)
	chance := rand.New(rand.NewPCG(2, 2))
	grow(t, pool, owner, leaves, chance, 40)
	for size := range everySize + 1 {
		some := someOf(size)
		chance.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		checkStored(t, pool, owner, leaves[:size], some[:min(len(some), 4)])
	}
}

func TestSizesAcrossTheBordersOfTiles(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	const most = 2*65_536 + 300
	owner, leaves := fixture.NewActor().Owner, leafHashes(most)
	chance := rand.New(rand.NewPCG(3, 3))
	// A neighbour's tiles must not matter.
	grow(t, pool, fixture.NewActor().Owner, leafHashes(700), chance, 300)
	grow(t, pool, owner, leaves, chance, 5000)
	sizes := []int{65_535, 65_536, 65_537, 65_536 + 256, 2 * 65_536, most}
	for range 4 {
		sizes = append(sizes, 1+chance.IntN(most))
	}
	for _, size := range sizes {
		checkStored(t, pool, owner, leaves[:size], []int{chance.IntN(size)})
	}
}

func checkStored(t *testing.T, pool *pgxpool.Pool, owner events.Owner, leaves []events.Hash, indexes []int) {
	t.Helper()
	ctx, size := t.Context(), uint64(len(leaves))
	if root, err := tree.Root(ctx, pool, owner, size); err != nil || root != naiveRoot(leaves) {
		t.Fatalf("root of %d is %s, %v", size, root, err)
	}
	for _, index := range indexes {
		p, err := tree.Inclusion(ctx, pool, owner, uint64(index), size)
		if err != nil {
			t.Fatalf("inclusion of %d in %d: %v", index, size, err)
		}
		checkInclusion(t, p, leaves, index)
		link, err := tree.Between(ctx, pool, owner, uint64(index), size)
		if err != nil || link.FromRoot != naiveRoot(leaves[:index]) || link.ToRoot != naiveRoot(leaves) {
			t.Fatalf("between %d and %d: %+v, %v", index, size, link, err)
		}
		checkConsistency(t, link.Path, leaves, index, len(leaves))
	}
}

func TestNothingIsProvenBeyondTheCache(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	owner, leaves := fixture.NewActor().Owner, leafHashes(300)
	grow(t, pool, owner, leaves, rand.New(rand.NewPCG(4, 4)), 100)
	ctx := t.Context()
	for _, size := range []uint64{301, 512, 70_000, 1 << 40, 1<<63 - 1} {
		if _, err := tree.Root(ctx, pool, owner, size); !errors.Is(err, tree.ErrIncomplete) {
			t.Errorf("root of %d: %v", size, err)
		}
		if _, err := tree.Inclusion(ctx, pool, owner, 5, size); !errors.Is(err, tree.ErrIncomplete) {
			t.Errorf("inclusion in %d: %v", size, err)
		}
		if _, err := tree.Between(ctx, pool, owner, 5, size); !errors.Is(err, tree.ErrIncomplete) {
			t.Errorf("between 5 and %d: %v", size, err)
		}
	}
	for _, size := range []uint64{1 << 63, 1<<64 - 1} {
		if _, err := tree.Root(ctx, pool, owner, size); !errors.Is(err, tree.ErrRange) {
			t.Errorf("root of %d: %v", size, err)
		}
		if _, err := tree.Between(ctx, pool, owner, 5, size); !errors.Is(err, tree.ErrRange) {
			t.Errorf("between 5 and %d: %v", size, err)
		}
	}
	for _, c := range []struct{ index, size uint64 }{{0, 0}, {300, 300}, {5, 3}} {
		if _, err := tree.Inclusion(ctx, pool, owner, c.index, c.size); !errors.Is(err, tree.ErrRange) {
			t.Errorf("inclusion of %d in %d: %v", c.index, c.size, err)
		}
	}
	if _, err := tree.Between(ctx, pool, owner, 5, 3); !errors.Is(err, tree.ErrRange) {
		t.Errorf("between 5 and 3: %v", err)
	}
	if root, err := tree.Root(ctx, pool, fixture.NewActor().Owner, 0); err != nil || root != verify.EmptyRoot {
		t.Errorf("root of nobody's log: %s, %v", root, err)
	}
}

func TestAGapInTheLeavesIsRefused(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	owner, leaves := fixture.NewActor().Owner, leafHashes(300)
	grow(t, pool, owner, leaves[:100], rand.New(rand.NewPCG(5, 5)), 100)
	// Leaf 100 is missing, and leaf 255 fills the tile.
	slice := projector.Slice{First: 102, Last: 256}
	for i := 101; i < 256; i++ {
		slice.Records = append(slice.Records, record(owner, i, leaves[i]))
	}
	err := (tree.Projection{}).Apply(t.Context(), projector.NewWriter(pool), slice)
	if !errors.Is(err, tree.ErrIncomplete) {
		t.Errorf("a tile with a hole: %v", err)
	}
	slice.Records = append(slice.Records[:3], slice.Records[4:]...)
	if err := (tree.Projection{}).Apply(t.Context(), projector.NewWriter(pool), slice); err == nil {
		t.Error("a slice with a hole went through")
	}
}
