package signin

import (
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
)

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
