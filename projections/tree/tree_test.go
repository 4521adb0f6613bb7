package tree_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/tree"
)

var must = testkit.Must

const everySize = 600

func TestRootsOfEverySmallSize(t *testing.T) {
	t.Parallel()
	leaves := leafHashes(everySize)
	frontier, err := verify.TreeOf(0, nil)
	must(t, err)
	for size := range everySize + 1 {
		want := naiveRoot(leaves[:size])
		if frontier.Size() != uint64(size) || frontier.Root() != want {
			t.Fatalf("frontier of %d leaves has %d and root %s, want %s", size, frontier.Size(), frontier.Root(), want)
		}
		// The kept size and hashes are enough to continue.
		frontier, err = verify.TreeOf(frontier.Size(), frontier.Hashes())
		must(t, err)
		if size < everySize {
			frontier.Append(leaves[size])
		}
	}
	if _, err := verify.TreeOf(3, nil); err == nil {
		t.Error("a tree of three leaves without hashes")
	}
}

// someOf returns the indexes at the edges of a tree, and some others.
func someOf(size int) []int {
	var some []int
	for _, i := range []int{0, 1, size / 2, size - 2, size - 1, 255, 256, 257} {
		if i >= 0 && i < size {
			some = append(some, i)
		}
	}
	chance := rand.New(rand.NewPCG(1, uint64(size)))
	for range min(size, 5) {
		some = append(some, chance.IntN(size))
	}
	return some
}

// checkInclusion compares the proof with the naive one, and checks it with a verifier
// from another project.
func checkInclusion(t *testing.T, p tree.Proof, leaves []events.Hash, index int) {
	t.Helper()
	root := naiveRoot(leaves)
	path, right := naivePath(index, leaves)
	if p.Root != root || p.Leaf != leaves[index] || !slices.Equal(p.Siblings, path) || !slices.Equal(p.Directions, right) {
		t.Fatalf("proof of %d in %d differs:\n%+v\nwant root %s, path %v, right %v", index, len(leaves), p, root, path, right)
	}
	if err := proof.VerifyInclusion(rfc6962.DefaultHasher, p.Index, p.Size, p.Leaf[:], raw(p.Siblings), p.Root[:]); err != nil {
		t.Fatalf("proof of %d in %d: %v", index, len(leaves), err)
	}
}

func checkConsistency(t *testing.T, path []events.Hash, leaves []events.Hash, from, to int) {
	t.Helper()
	if want := naiveConsistency(from, leaves[:to]); !slices.Equal(path, want) {
		t.Fatalf("consistency of %d to %d is %v, want %v", from, to, path, want)
	}
	if from == 0 {
		return // the verifier has no opinion on the empty tree
	}
	first, second := naiveRoot(leaves[:from]), naiveRoot(leaves[:to])
	if err := proof.VerifyConsistency(rfc6962.DefaultHasher, uint64(from), uint64(to), raw(path), first[:], second[:]); err != nil {
		t.Fatalf("consistency of %d to %d: %v", from, to, err)
	}
}

func raw(hashes []events.Hash) [][]byte {
	out := make([][]byte, len(hashes))
	for i := range hashes {
		out[i] = hashes[i][:]
	}
	return out
}
