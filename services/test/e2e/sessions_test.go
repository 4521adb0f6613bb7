package e2e_test

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/signin"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// listedSession is a session in an answer.
type listedSession struct {
	ID, API string
	Current bool
}

func sessionsOf(t *testing.T, core *stacktest.Client, session stacktest.Header) []listedSession {
	t.Helper()
	return decode[[]listedSession](t, core.Expect(200, "GET", "/auth/sessions", nil, session).Body)
}

// fewFiles starts a program that may open 256 files.
var fewFiles = []string{"sh", "-c", `ulimit -n 256 && exec "$@"`, "sh"}

// withFewFiles: a run that may open 256 files survives 500 connections to each API that
// never send a byte. It answers meanwhile, and continues afterwards.
func withFewFiles(t *testing.T, r *run, core, extension *stacktest.Client, session, other stacktest.Header) {
	t.Helper()
	var open []net.Conn
	for range 500 {
		for _, client := range []*stacktest.Client{core, extension} {
			conn, err := net.Dial("tcp", strings.TrimPrefix(client.URL, "http://"))
			noErr(t, err)
			open = append(open, conn)
		}
	}
	core.Expect(201, "POST", "/memories", map[string]any{"content": "under pressure"}, session)
	extension.Expect(200, "GET", "/memories", nil, other)
	for _, conn := range open {
		_ = conn.Close()
	}
	core.Expect(201, "POST", "/memories", map[string]any{"content": "afterwards"}, session)
	if out := r.output(); !strings.Contains(out, "limit on open files") {
		t.Errorf("the run does not say that it takes fewer connections:\n%s", out)
	}
}

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
