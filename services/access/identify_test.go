package access_test

import (
	"errors"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

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
