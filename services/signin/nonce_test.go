package signin

import (
	"crypto/ed25519"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/keystore"
)

// TestANonceHasOneScope: a nonce is valid for the API, the purpose, and the message that it
// was issued for, under any of the keys, in one spelling, unaltered.
func TestANonceHasOneScope(t *testing.T) {
	t.Parallel()
	keys := DeriveNonceKeys([]keystore.Master{keystore.MasterKey{1}, keystore.MasterKey{2}, keystore.MasterKey{3}})
	const about = "a message of an owner"
	signIn := scope{events.AudienceCore, PurposeSignIn, about}
	issued := nonce{random: [16]byte{1, 2, 3}, expires: events.At(time.UnixMilli(1_767_323_345_006))}
	text := issued.text(keys[1], signIn)
	if len(text) != 64 || strings.Trim(text, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		t.Fatalf("nonce %q", text)
	}
	if got, ok := parseNonce(text, keys[:2], signIn); !ok || got != issued {
		t.Errorf("got %+v, %v", got, ok)
	}
	if _, ok := parseNonce(text, keys[2:], signIn); ok {
		t.Error("good under another key")
	}
	for name, wrong := range map[string]scope{
		"the other API":         {events.AudienceExtension, PurposeSignIn, about},
		"another purpose":       {events.AudienceCore, "erase", about},
		"purpose within API":    {events.AudienceCore + "\x00" + events.Audience(PurposeSignIn), "", about},
		"API within purpose":    {"", "core\x00" + PurposeSignIn, about},
		"another message":       {events.AudienceCore, PurposeSignIn, about + "'s"},
		"no message":            {events.AudienceCore, PurposeSignIn, ""},
		"purpose cut elsewhere": {"cor", "e" + PurposeSignIn, about},
	} {
		if _, ok := parseNonce(text, keys, wrong); ok {
			t.Errorf("good for %s", name)
		}
	}
	for i := range len(text) { // random bytes, expiry and MAC: no character may change
		for _, c := range "a2q7" {
			if altered := text[:i] + string(c) + text[i+1:]; altered != text {
				if _, ok := parseNonce(altered, keys, signIn); ok {
					t.Errorf("good with %c at %d", c, i)
				}
			}
		}
	}
	for _, spelling := range []string{
		"", strings.ToUpper(text), text + "a", text[:63], text + "\n", "\n" + text[1:], text[:63] + "\r", text + "========", text[:63] + "=",
	} {
		if _, ok := parseNonce(spelling, keys, signIn); ok {
			t.Errorf("spelled %q it is good too", spelling)
		}
	}
}

const testOwner = events.Owner("4Nd1mYvYzk6jNsMbXzN7XUxuJdDmHMczYbsYnyDyB1vM")

func TestMessage(t *testing.T) {
	issued := events.At(time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC))
	nonce := strings.Repeat("a2", 32)
	got := message(Site{"ledger.example:8443", "https://ledger.example:8443", "mainnet"}, PurposeSignIn, testOwner, nonce, issued, issued.Add(NonceLifetime))
	want := `ledger.example:8443 wants you to sign in with your Solana account:
4Nd1mYvYzk6jNsMbXzN7XUxuJdDmHMczYbsYnyDyB1vM

Sign in to Memory Ledger. This proves that you hold this wallet's key. It costs nothing and moves nothing.

URI: https://ledger.example:8443
Version: 1
Chain ID: mainnet
Nonce: a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2
Issued At: 2026-01-02T03:04:05.006Z
Expiration Time: 2026-01-02T03:09:05.006Z`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p, ok := parseMessage(got)
	rest := strings.Replace(want, nonce, "", 1)
	if !ok || p.address != string(testOwner) || p.nonce != nonce || p.rest != rest ||
		rest != message(Site{"ledger.example:8443", "https://ledger.example:8443", "mainnet"}, PurposeSignIn, testOwner, "", issued, issued.Add(NonceLifetime)) {
		t.Errorf("parsed %+v, %v", p, ok)
	}
}

// TestUsesAreRememberedLongEnough: the bucket drops no use of a nonce that a replica may still
// accept.
func TestUsesAreRememberedLongEnough(t *testing.T) {
	t.Parallel()
	if cfg := natsconf.StreamConfig(NonceStream, 1); cfg.MaxAge != spentFor {
		t.Errorf("%v, want %v", cfg.MaxAge, spentFor)
	}
}

var must = testkit.Must

// TestSigned: a valid signature is accepted, but none by a key without a holder.
func TestSigned(t *testing.T) {
	t.Parallel()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	const message = "message"
	owner := events.OwnerFromBytes([32]byte(key.Public().(ed25519.PublicKey)))
	if !signed(owner, message, ed25519.Sign(key, []byte(message))) || signed(owner, message, ed25519.Sign(key, []byte("another"))) {
		t.Error("a key that somebody holds")
	}
	identity := make([]byte, ed25519.SignatureSize) // S is 0, and R is the identity
	identity[0] = 1
	verified := 0
	for name, text := range map[string]string{
		"identity":               "0100000000000000000000000000000000000000000000000000000000000000",
		"order 2":                "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"order 4":                "0000000000000000000000000000000000000000000000000000000000000000",
		"order 8":                "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"not canonical":          "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"not canonical identity": "0100000000000000000000000000000000000000000000000000000000000080",
		"off the curve":          "0200000000000000000000000000000000000000000000000000000000000000",
	} {
		raw, err := hex.DecodeString(text)
		must(t, err)
		// Whether such a signature verifies depends on the message: one in eight does.
		for i := range 32 {
			if ed25519.Verify(raw, []byte{byte(i)}, identity) {
				verified++
			}
			if signed(events.OwnerFromBytes([32]byte(raw)), string(rune(i)), identity) {
				t.Errorf("%s signed message %d", name, i)
			}
		}
	}
	if verified < 64 {
		t.Errorf("%d signatures would have been good", verified)
	}
}

// TestEnvelopes: a wallet may sign one of the envelopes of the message, for this signer
// alone, and nothing else. The first two were made by npm @solana/offchain-messages 8.4.0.
func TestEnvelopes(t *testing.T) {
	t.Parallel()
	const message = "ledger.example wants you to sign in:\nétc"
	known, err := events.ParseOwner("FVen3X669xLzsi6N2V91DoiyzHzg1uAgqiT8jZ9nS96Z")
	must(t, err)
	const text = "6c65646765722e6578616d706c652077616e747320796f7520746f207369676e20696e3a0ac3a97463"
	const signer = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
	const domain, zero = "ff736f6c616e61206f6666636861696e", "0000000000000000000000000000000000000000000000000000000000000000"
	var all []string
	for bytes := range signable(known, message) {
		all = append(all, hex.EncodeToString(bytes))
	}
	own := applicationDomain(message)
	for name, want := range map[string]string{
		"the message": text, "version 1": domain + "01" + "01" + signer + text, "version 0": domain + "00" + zero + "01" + "01" + signer + "2900" + text,
		"version 0 for the service": domain + "00" + hex.EncodeToString(own[:]) + "01" + "01" + signer + "2900" + text, "before": domain + "00" + "01" + "2900" + text,
	} {
		if !slices.Contains(all, want) {
			t.Errorf("%s is not signable", name)
		}
	}

	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	owner := events.OwnerFromBytes([32]byte(key.Public().(ed25519.PublicKey)))
	for bytes := range signable(owner, message) {
		if !signed(owner, message, ed25519.Sign(key, bytes)) {
			t.Errorf("refused: %q", bytes)
		}
	}
	mine := hex.EncodeToString(key.Public().(ed25519.PublicKey))
	for name, bad := range map[string]string{
		"another signer": domain + "01" + "01" + signer + text, "two signers": domain + "01" + "02" + mine + signer + text, "another text": domain + "01" + "01" + mine + text + "21",
		"version 2": domain + "02" + "01" + mine + text, "no signer": domain + "01" + "00" + text, "another service": domain + "00" + strings.Repeat("11", 32) + "01" + "01" + mine + "2900" + text,
		"another length": domain + "00" + zero + "01" + "01" + mine + "2a00" + text, "another format": domain + "00" + zero + "03" + "01" + mine + "2900" + text,
	} {
		bytes, err := hex.DecodeString(bad)
		must(t, err)
		if signed(owner, message, ed25519.Sign(key, bytes)) {
			t.Errorf("%s was taken", name)
		}
	}
}
