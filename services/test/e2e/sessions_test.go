package e2e_test

import (
	"net"
	"strings"
	"testing"

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
