package leaf_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/events/verify/leaf"
)

// vector is one row of testdata/vectors.json, which a program in another
// language has computed.
type vector struct {
	Name, DataKey, Guest, Owner, Content, Metadata, Salt, Entry, LeafHash string
}

func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/vectors.json")
	must(t, err)
	var vectors []vector
	must(t, json.Unmarshal(raw, &vectors))
	if len(vectors) < 8 {
		t.Fatalf("only %d vectors", len(vectors))
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) { check(t, v) })
	}
}

func check(t *testing.T, v vector) {
	key, err := hex.DecodeString(v.DataKey)
	must(t, err)
	secret := leaf.DeriveSecret([32]byte(key))
	if v.Guest != "" {
		secret = leaf.DeriveGuestSecret([32]byte(key), v.Guest)
	}
	metadata, err := canonical.Canonicalize([]byte(v.Metadata))
	must(t, err)
	if metadata.String() != v.Metadata {
		t.Errorf("metadata %s, want %s", metadata, v.Metadata)
	}
	l, err := leaf.New(secret, leaf.Memory{Content: v.Content, Metadata: metadata, Owner: leaf.Owner(v.Owner)})
	must(t, err)
	if l.Salt != v.Salt {
		t.Errorf("salt %s, want %s", l.Salt, v.Salt)
	}
	entry, err := l.Entry()
	must(t, err)
	if string(entry) != v.Entry {
		t.Errorf("entry\n%s\nwant\n%s", entry, v.Entry)
	}
	hash, err := l.Hash()
	must(t, err)
	if hash.String() != v.LeafHash {
		t.Errorf("hash %s, want %s", hash, v.LeafHash)
	}
	if at, err := leaf.Commit(secret, l.Memory); err != nil || at != hash {
		t.Errorf("committed at once to %s, %v, want %s", at, err, hash)
	}
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSet: sets end where they are cut, also between two words of 64 leaves.
func TestSet(t *testing.T) {
	t.Parallel()
	for _, size := range []uint64{0, 1, 63, 64, 65, 128, 200} {
		s := leaf.Below(size)
		if s.Count() != int(size) || s.Has(size) || size > 0 && !s.Has(size-1) {
			t.Errorf("below %d are %d", size, s.Count())
		}
		s.Remove(size) // not in it
		s.Remove(0)
		var other leaf.Set
		for n := uint64(0); n < 100; n += 3 {
			other.Add(n)
		}
		want := max(1, (min(size, 100)+2)/3) - 1 // without 0
		if s.Keep(other); s.Count() != int(want) {
			t.Errorf("%d of %d are kept, not %d", s.Count(), size, want)
		}
	}
}
