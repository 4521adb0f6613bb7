package keystore_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/keystore/keystoretest"
)

// sealLeaf returns the sealed text of a leaf.
func sealLeaf(t testing.TB, key *keystore.OwnerKey, leaf uint64) []byte {
	t.Helper()
	sealed, sealing := key.Seal(leaf, "m", fmt.Sprint("text ", leaf))
	if sealing != events.SealedByLeaf {
		t.Fatal(sealing)
	}
	return sealed
}

// opens fails the test unless exactly the leaves open that were not forgotten.
func opens(t testing.TB, key *keystore.OwnerKey, sealed map[uint64][]byte, forgotten map[uint64]bool) {
	t.Helper()
	opener := key.Opener()
	for leaf, body := range sealed {
		text, err := opener.Open(events.SealedByLeaf, leaf, []byte("m"), body)
		switch {
		case forgotten[leaf] && (!errors.Is(err, keystore.ErrLeafDestroyed) || !key.Destroyed(leaf)):
			t.Errorf("leaf %d was forgotten: %q, %v", leaf, text, err)
		case !forgotten[leaf] && (err != nil || string(text) != fmt.Sprint("text ", leaf) || key.Destroyed(leaf)):
			t.Errorf("leaf %d was not: %q, %v", leaf, text, err)
		}
	}
}

// TestForgettingLeaves: of random leaves, in any order and any number at a time, those that
// were forgotten don't open, and all others do. Another process sees the same.
func TestForgettingLeaves(t *testing.T) {
	t.Parallel()
	js := connect(t, natstest.Start(t))
	bucket := bucketIn(t, js)
	rapid.Check(t, func(rt *rapid.T) {
		s, owner := openMarked(t, js, bucket, keystore.MasterKey{1}), logtest.Owner()
		key, err := s.FindOrCreate(t.Context(), owner, 0, nil)
		if err != nil {
			rt.Fatal(err)
		}
		anyLeaf := rapid.OneOf(rapid.Uint64Range(0, 40), rapid.SampledFrom([]uint64{255, 256, 257, 1<<31 - 1, 1 << 31, 1<<32 - 2, 1<<32 - 1}))
		sealed, forgotten := map[uint64][]byte{}, map[uint64]bool{}
		for leaf := range uint64(41) {
			sealed[leaf] = sealLeaf(t, key, leaf)
		}
		for range rapid.IntRange(1, 3).Draw(rt, "times") {
			leaves := rapid.SliceOfN(anyLeaf, 1, 12).Draw(rt, "leaves")
			for _, leaf := range leaves {
				if !forgotten[leaf] {
					sealed[leaf] = sealLeaf(t, key, leaf)
				}
				forgotten[leaf] = true
			}
			if err := s.DestroyLeaves(t.Context(), owner, leaves...); err != nil {
				rt.Fatal(err)
			}
			for _, reader := range []*keystore.Store{s, openMarked(t, js, bucket, keystore.MasterKey{1})} {
				now, err := reader.Find(t.Context(), owner)
				if err != nil {
					rt.Fatal(err)
				}
				opens(t, now, sealed, forgotten)
				key = now
			}
			if t.Failed() {
				rt.FailNow()
			}
		}
	})
}

// TestAThousandForgottenLeaves of an owner with 100,000 memories fit, and the next ones are
// refused when the entry is full, which changes nothing.
func TestAThousandForgottenLeaves(t *testing.T) {
	slow(t) // and for the race detector it takes minutes
	t.Parallel()
	js := connect(t, natstest.Start(t))
	bucket := bucketIn(t, js)
	s, owner := openMarked(t, js, bucket, keystore.MasterKey{1}), logtest.Owner()
	must(t, errorOf(s.FindOrCreate(t.Context(), owner, 0, nil)))
	forget := func(n int, below uint64) error {
		leaves := make([]uint64, n)
		for i := range leaves {
			leaves[i] = rand.Uint64N(below)
		}
		return s.DestroyLeaves(t.Context(), owner, leaves...)
	}
	must(t, forget(1000, 100_000))
	before, err := bucket.Get(t.Context(), string(owner))
	must(t, err)
	t.Logf("1,000 of 100,000: %d bytes", len(before.Value()))
	if err := forget(2000, 1<<32); !errors.Is(err, keystore.ErrTooManyForgotten) {
		t.Errorf("too many: %v", err)
	}
	if after, err := bucket.Get(t.Context(), string(owner)); err != nil || after.Revision() != before.Revision() {
		t.Errorf("the entry changed: %v", err)
	}
	far := func(n uint64) uint64 { return 1<<20 + n<<12 } // each adds most of a path
	var many []uint64
	for n := range uint64(420) {
		many = append(many, far(n))
	}
	must(t, s.DestroyLeaves(t.Context(), owner, many...))
	for n := uint64(420); ; n++ {
		leaf := far(n)
		key, err := s.Find(t.Context(), owner)
		must(t, err)
		if err := key.Room(leaf); errors.Is(err, keystore.ErrTooManyForgotten) {
			break // and what has room fits
		}
		must(t, s.DestroyLeaves(t.Context(), owner, leaf))
	}
}

// TestTheTreeOfKeys: the path to a leaf's key is as documented, so that an auditor with the
// root can follow it.
func TestTheTreeOfKeys(t *testing.T) {
	t.Parallel()
	js := connect(t, natstest.Start(t))
	bucket, owner := bucketIn(t, js), logtest.Owner()
	key, err := openStore(t, bucket, keystore.MasterKey{1}).FindOrCreate(t.Context(), owner, 0, nil)
	must(t, err)
	plain := unwrapped(t, bucket, owner, "memory-ledger/owner-keys/v2")
	if len(plain) != 32+1+32 || plain[32] != 0 {
		t.Fatalf("%d bytes are wrapped: the data key, and the root's depth and key are 65", len(plain))
	}
	leaf := uint64(0xa5000001)
	leafKey := plain[33:]
	for bit := 31; bit >= 0; bit-- {
		mac := hmac.New(sha256.New, leafKey)
		mac.Write([]byte{byte(leaf >> bit & 1)})
		leafKey = mac.Sum(nil)
	}
	sealed := sealLeaf(t, key, leaf)
	text, err := gcm(t, leafKey).Open(nil, sealed[:12], sealed[12:], []byte("memory-ledger/body/v2\x00"+string(owner)+"\x00m"))
	if err != nil || string(text) != fmt.Sprint("text ", leaf) {
		t.Errorf("%q, %v", text, err)
	}
}

func gcm(t testing.TB, key []byte) cipher.AEAD {
	t.Helper()
	block, err := aes.NewCipher(key)
	must(t, err)
	aead, err := cipher.NewGCM(block)
	must(t, err)
	return aead
}

// unwrapped returns what master key 1 wraps in an owner's entry.
func unwrapped(t testing.TB, bucket jetstream.KeyValue, owner events.Owner, context string) []byte {
	t.Helper()
	stored, err := bucket.Get(t.Context(), string(owner))
	must(t, err)
	var e struct {
		Wrapped []byte `json:"wrapped"`
	}
	must(t, json.Unmarshal(stored.Value(), &e))
	plain, err := gcm(t, append([]byte{1}, make([]byte, 31)...)).Open(nil, e.Wrapped[:12], e.Wrapped[12:], []byte(context+"\x00"+string(owner)))
	must(t, err)
	return plain
}

// TestForgettingLeavesErases: whatever step a crash interrupts, the entry stays readable, and
// the next attempt leaves no byte of the old one in the server's files.
func TestForgettingLeavesErases(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	js := connect(t, natstest.Start(t, natstest.Dir(dir)))
	bucket := bucketIn(t, js)
	for _, crash := range []string{"no", "before the new entry", "after the new entry", "before the old one is erased"} {
		owner := logtest.Owner()
		broken := &breaking{KeyValue: bucket}
		s := openWith(t, broken, keystore.Config{Masters: []keystore.Master{keystore.MasterKey{1}}, Stream: streamOf(t, js), Sync: func(context.Context) error {
			if broken.updated && crash == "before the old one is erased" {
				return errCrash
			}
			return nil
		}})
		key, err := s.FindOrCreate(t.Context(), owner, 0, nil)
		must(t, err)
		sealed := map[uint64][]byte{4: sealLeaf(t, key, 4), 5: sealLeaf(t, key, 5)}
		var old [][]byte
		for leaf := range uint64(2) { // neither the first entry nor a later one stays
			entry, err := bucket.Get(t.Context(), string(owner))
			must(t, err)
			old = append(old, entry.Value())
			broken.crash, broken.updated = crash, false
			err = s.DestroyLeaves(t.Context(), owner, 10+leaf, 5)
			if errors.Is(err, errCrash) != (crash != "no") {
				t.Fatalf("%s: %v", crash, err)
			}
			next := openMarked(t, js, bucket, keystore.MasterKey{1})
			if now, err := next.Find(t.Context(), owner); err != nil || now.Destroyed(4) {
				t.Fatalf("crash %s: %v", crash, err)
			}
			must(t, next.DestroyLeaves(t.Context(), owner, 10+leaf, 5))
			now, err := next.Find(t.Context(), owner)
			must(t, err)
			opens(t, now, sealed, map[uint64]bool{5: true})
			broken.crash = ""
		}
		for _, value := range old {
			if files := natstest.FilesHolding(t, dir, value); len(files) > 0 {
				t.Errorf("crash %s: an old entry is in %q", crash, files)
			}
		}
	}
}

var errCrash = errors.New("crashed")

// breaking fails before or after an update.
type breaking struct {
	jetstream.KeyValue
	crash   string
	updated bool
}

func (b *breaking) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if b.crash == "before the new entry" {
		return 0, errCrash
	}
	seq, err := b.KeyValue.Update(ctx, key, value, revision)
	if b.updated = b.crash != ""; b.crash == "after the new entry" {
		return 0, errCrash
	}
	return seq, err
}

// TestTheWholeKeyIsErased although the bucket keeps two revisions of its entry.
func TestTheWholeKeyIsErased(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	js := connect(t, natstest.Start(t, natstest.Dir(dir)))
	bucket, owner := bucketIn(t, js), logtest.Owner()
	must(t, errorOf(openStore(t, bucket, keystore.MasterKey{2}).FindOrCreate(t.Context(), owner, 0, nil)))
	first, err := bucket.Get(t.Context(), string(owner))
	must(t, err)
	if done, err := openStore(t, bucket, keystore.MasterKey{1}, keystore.MasterKey{2}).Rewrap(t.Context(), nil); err != nil || done.Fresh != 1 {
		t.Fatal(done, err)
	}
	second, err := bucket.Get(t.Context(), string(owner))
	must(t, err)
	must(t, errorOf(keystore.Forget(t.Context(), js, owner, true)))
	for _, value := range [][]byte{first.Value(), second.Value()} {
		if files := natstest.FilesHolding(t, dir, value); len(files) > 0 {
			t.Errorf("an entry is in %q", files)
		}
	}
	if _, err := openMarked(t, js, bucket, keystore.MasterKey{1}).Find(t.Context(), owner); !errors.Is(err, keystore.ErrForgotten) {
		t.Errorf("found: %v", err)
	}
}

// BenchmarkSealing compares a key a leaf, version 2, with one key an owner, version 1, which
// still seals the leaves whose keys were destroyed.
func BenchmarkSealing(b *testing.B) {
	_, js := natstest.Connect(b, natstest.Start(b).URL())
	s, owner := keystoretest.Create(b, js, keystore.MasterKey{1}), logtest.Owner()
	must(b, errorOf(s.FindOrCreate(b.Context(), owner, 0, nil)))
	must(b, s.DestroyLeaves(b.Context(), owner, 1<<31))
	key, err := s.Find(b.Context(), owner)
	must(b, err)
	text := strings.Repeat("x", 100)
	for _, v := range []struct {
		version int
		leaf    func(i int) uint64
	}{{events.SealedByOwner, func(int) uint64 { return 1 << 31 }}, {events.SealedByLeaf, func(i int) uint64 { return uint64(i) }}} {
		var sealed [4096][]byte
		for i := range sealed {
			sealed[i], _ = key.Seal(v.leaf(i), "m", text)
		}
		b.Run(fmt.Sprint("seal, version ", v.version), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if _, sealing := key.Seal(v.leaf(i), "m", text); sealing != v.version {
					b.Fatal(sealing)
				}
			}
		})
		b.Run(fmt.Sprint("open, version ", v.version), func(b *testing.B) {
			opener := key.Opener()
			for i := 0; b.Loop(); i++ {
				leaf := i % len(sealed)
				if _, err := opener.Open(v.version, v.leaf(leaf), []byte("m"), sealed[leaf]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
