package e2e_test

import (
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// listedSession is a session in an answer.
type listedSession struct {
	ID, API, CreatedAt, ExpiresAt string
	Current                       bool
}

func sessionsOf(t *testing.T, core *stacktest.Client, session stacktest.Header) []listedSession {
	t.Helper()
	return decode[[]listedSession](t, core.Expect(200, "GET", "/auth/sessions", nil, session).Body)
}
