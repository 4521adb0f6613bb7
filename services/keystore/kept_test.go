package keystore_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/services/keystore"
)

func keeper(t *testing.T, k *keystore.OwnerKey) *keystore.Keeper {
	t.Helper()
	keeper, err := k.Keeper()
	if err != nil {
		t.Fatal(err)
	}
	return keeper
}

// TestKeeper: sealed data opens with the same key, owner, and context, and with no other.
func TestKeeper(t *testing.T) {
	t.Parallel()
	s := openStore(t, newBucket(t), keystore.MasterKey{1})
	keyA, err := s.FindOrCreate(t.Context(), logtest.Owner(), 0)
	if err != nil {
		t.Fatal(err)
	}
	keyB, err := s.FindOrCreate(t.Context(), logtest.Owner(), 0)
	if err != nil {
		t.Fatal(err)
	}
	a, again, b := keeper(t, keyA), keeper(t, keyA), keeper(t, keyB)
	var buffer []byte
	for _, plain := range [][]byte{nil, []byte("x"), []byte("a\x00b"), bytes.Repeat([]byte("é"), 100_000), []byte("short again")} {
		const before = "what was there before"
		whole := a.Seal([]byte(before), []byte("one"), plain)
		sealed := whole[len(before):]
		if string(whole[:len(before)]) != before || len(sealed) != len(plain)+keystore.KeptOverhead {
			t.Fatalf("%d bytes sealed are %d", len(plain), len(sealed))
		}
		if other := a.Seal(nil, []byte("one"), plain); bytes.Equal(other[:12], sealed[:12]) {
			t.Error("a nonce came twice")
		}
		for _, k := range []*keystore.Keeper{a, again} {
			var err error
			if buffer, err = k.Open(buffer, []byte("one"), sealed); err != nil || !bytes.Equal(buffer, plain) {
				t.Errorf("opened %.20q, %v", buffer, err)
			}
		}
		refused := func(name string, k *keystore.Keeper, context string, sealed []byte) {
			if _, err := k.Open(nil, []byte(context), sealed); !errors.Is(err, keystore.ErrSealed) {
				t.Errorf("opens with %s: %v", name, err)
			}
		}
		refused("another context", a, "two", sealed)
		refused("no context", a, "", sealed)
		refused("another key", b, "one", sealed)
		refused("its end cut off", a, "one", sealed[:len(sealed)-1])
		refused("nothing", a, "one", nil)
		for _, i := range []int{0, 12, len(sealed) / 2, len(sealed) - 1} {
			altered := slices.Clone(sealed)
			altered[i] ^= 1
			refused("a byte altered", a, "one", altered)
		}
	}
}

// TestKeeperForm: the key and the associated data are as documented, and differ from those
// of bodies.
func TestKeeperForm(t *testing.T) {
	t.Parallel()
	kv, owner, master := newBucket(t), logtest.Owner(), keystore.MasterKey{1}
	key, err := openStore(t, kv, master).FindOrCreate(t.Context(), owner, 0)
	if err != nil {
		t.Fatal(err)
	}
	sealed := keeper(t, key).Seal(nil, []byte("context"), []byte("text"))
	if _, err := key.Open("context", sealed); !errors.Is(err, keystore.ErrSealed) {
		t.Errorf("opens as a body: %v", err)
	}
	stored, err := kv.Get(t.Context(), string(owner))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := hkdf.Key(sha256.New, dataKey(t, master, owner, stored.Value()), nil, "memory-ledger/kept-texts/v1", 32)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := gcm(t, raw).Open(nil, sealed[:12], sealed[12:], []byte("memory-ledger/kept-texts/v1\x00"+string(owner)+"\x00context"))
	if err != nil || string(plain) != "text" {
		t.Errorf("%q, %v", plain, err)
	}
}

// dataKey unwraps an owner's data key from the keystore's entry.
func dataKey(t *testing.T, master keystore.MasterKey, owner events.Owner, value []byte) []byte {
	t.Helper()
	var entry struct{ Wrapped []byte }
	if err := json.Unmarshal(value, &entry); err != nil {
		t.Fatal(err)
	}
	raw, err := gcm(t, master[:]).Open(nil, entry.Wrapped[:12], entry.Wrapped[12:], []byte("memory-ledger/data-key/v1\x00"+string(owner)))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func gcm(t *testing.T, key []byte) cipher.AEAD {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	return aead
}
