package signin

import (
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
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
