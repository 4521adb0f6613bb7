package e2e_test

import (
	"errors"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/signin"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestASessionEndsWhileItIsRemembered: a remembered session ends at its time, for writes
// and for reads, even if that time passes while the read waits for the log.
func TestASessionEndsWhileItIsRemembered(t *testing.T) {
	s := shared(t)
	base, f := common.Beside(t)
	header := "Bearer " + s.Extension[0].Token(stacktest.NewWallet())
	over := time.Now().Add(s.Config.ExtensionSessionTTL + time.Minute)
	for name, ask := range map[string]func(*access.Authenticator) error{
		"write": func(d *access.Authenticator) error { _, err := d.Write(t.Context(), header); return err },
		"read":  func(d *access.Authenticator) error { _, err := d.Read(t.Context(), header); return err },
	} {
		for inTime := range 2 { // how many looks at the clock find the session alive
			if name == "write" && inTime > 0 {
				continue // a write looks at the clock once and waits for nothing
			}
			left := -1 // no bound
			credentials := access.NewExtension(base.Pool, f, func() time.Time {
				if left == 0 {
					return over
				}
				left--
				return time.Now()
			})
			for range 2 { // the second Read remembers the owner's head
				if _, err := credentials.Read(t.Context(), header); err != nil {
					t.Fatal(err)
				}
			}
			left = inTime
			if err := ask(credentials); !errors.Is(err, access.ErrUnauthenticated) {
				t.Errorf("%s, over after %d looks at the clock: %v", name, inTime, err)
			}
		}
	}
}

// TestASessionThatOnlyWritesIsVerifiedOnce: a signed session that has written is remembered,
// and still ends when it is signed out, and at its time.
func TestASessionThatOnlyWritesIsVerifiedOnce(t *testing.T) {
	s := shared(t)
	base, f := common.Beside(t)
	wallet := stacktest.NewWallet()
	token := s.Core[0].Token(wallet)
	header, now := "Bearer "+token, time.Now()
	clock := func() time.Time { return now }
	credentials := access.NewCore(base.Pool, f, signin.NewSignedTokens([]byte(base.Config.JWTSecret), clock), clock)
	for range 3 {
		if caller, err := credentials.Write(t.Context(), header); err != nil || string(caller.Owner) != wallet.PublicKey {
			t.Fatalf("%+v, %v", caller, err)
		}
	}
	if hits, misses := credentials.Hits.Hits.Load(), credentials.Hits.Misses.Load(); hits != 2 || misses != 1 {
		t.Errorf("%d of 3 writes found the session remembered, %d did not", hits, misses)
	}
	s.Core[0].Expect(200, "DELETE", "/auth/sessions", nil, s.Core[0].SignIn(wallet))
	if _, err := credentials.Read(t.Context(), header); !errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("a read of a session that was signed out: %v", err)
	}
	if _, err := credentials.Write(t.Context(), header); err != nil {
		t.Errorf("a write, whose decision refuses the session: %v", err)
	}
	now = now.Add(2 * signin.CoreSessionLifetime)
	if _, err := credentials.Write(t.Context(), header); !errors.Is(err, access.ErrUnauthenticated) {
		t.Errorf("a write after the session's time: %v", err)
	}
}
