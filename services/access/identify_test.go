package access_test

import (
	"errors"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestOtherTablesMaySayWhoseItIs: a remembered credential is looked up again once the
// tables that it came from were exchanged, even if no request waits for the log.
func TestOtherTablesMaySayWhoseItIs(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	base, f := s.Beside(t)
	wallet, stranger := stacktest.NewWallet(), stacktest.NewWallet()
	header := "Bearer " + s.Extension[0].Token(wallet)
	s.Extension[0].Token(stranger)
	if err := f.WaitAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := base.Pool.Exec(t.Context(), `UPDATE sessions SET owner = $1`, stranger.PublicKey); err != nil {
		t.Fatal(err)
	}
	credentials := access.NewExtension(base.Pool, f, time.Now)
	whose := func(want stacktest.Wallet) {
		t.Helper()
		for range 2 { // the second call uses the remembered credential
			caller, err := credentials.Write(t.Context(), header)
			if err != nil || caller.Owner != events.Owner(want.PublicKey) {
				t.Errorf("it is %s's, %v, want %s's", caller.Owner, err, want.PublicKey)
			}
		}
	}
	whose(stranger)
	was := f.Tables()
	if _, err := rebuild.Run(t.Context(), rebuild.Config{Pool: base.Pool, Log: base.Stream, Force: true}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.After(2 * time.Minute); f.Tables() == was; {
		select {
		case <-deadline:
			t.Fatal("the fence did not notice")
		case <-time.After(time.Millisecond):
		}
	}
	whose(wallet)
}

// TestASessionEndsWhileItIsRemembered: a remembered session ends at its time, for writes
// and for reads, even if that time passes while the read waits for the log.
func TestASessionEndsWhileItIsRemembered(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	base, f := s.Beside(t)
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
