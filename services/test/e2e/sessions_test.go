package e2e_test

import (
	"slices"
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

// TestSessions: an owner sees the sessions of both APIs and ends them, on any replica.
func TestSessions(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2, Extension: 2})
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	mine := core.SignIn(wallet)
	token := extension.Token(wallet)
	other := s.Core[1].SignIn(wallet)
	stranger := core.SignIn(stacktest.NewWallet())

	listed := sessionsOf(t, s.Core[1], mine)
	var apis []string
	for i, l := range listed {
		apis = append(apis, l.API)
		if l.Current != (i == 0) || l.CreatedAt >= l.ExpiresAt {
			t.Errorf("session %d: %+v", i, l)
		}
		// The ID of a session is not a credential.
		s.Core[0].Expect(401, "GET", "/log", nil, stacktest.Bearer(l.ID))
		s.Extension[0].Expect(401, "GET", "/auth/me", nil, stacktest.Bearer("svc_session_"+l.ID))
		core.Expect(404, "DELETE", "/auth/sessions/"+l.ID, nil, stranger)
	}
	if !slices.Equal(apis, []string{"core", "extension", "core"}) {
		t.Fatalf("listed %+v", listed)
	}
	core.Expect(404, "DELETE", "/auth/sessions/none", nil, mine)
	key := stacktest.Bearer(core.Expect(201, "POST", "/keys", map[string]any{"label": "x"}, mine).Text("key"))
	core.Expect(403, "GET", "/auth/sessions", nil, key)
	core.Expect(403, "DELETE", "/auth/sessions", nil, key)
	core.Expect(403, "DELETE", "/auth/sessions/"+listed[0].ID, nil, key)

	for range 2 { // ending it again is no error
		core.Expect(200, "DELETE", "/auth/sessions/"+listed[1].ID, nil, mine)
		for _, replica := range s.Extension {
			replica.Expect(401, "GET", "/auth/me", nil, stacktest.Bearer(token))
			replica.Expect(401, "POST", "/memories", map[string]any{"content": "x", "source": "s"}, stacktest.Bearer(token))
		}
	}
	if left := sessionsOf(t, core, mine); len(left) != 2 {
		t.Errorf("left %+v", left)
	}
	if a := s.Core[1].Expect(200, "DELETE", "/auth/sessions", nil, mine); a.Number("ended") != 1 {
		t.Errorf("%s", a.Body)
	}
	for _, replica := range s.Core {
		replica.Expect(401, "GET", "/memories", nil, other)
		replica.Expect(401, "POST", "/memories", map[string]any{"content": "x"}, other)
		replica.Expect(401, "POST", "/memories/batch", map[string]any{"memories": []any{map[string]any{"content": "x"}}}, other)
		replica.Expect(401, "POST", "/keys", map[string]any{"label": "x"}, other)
		replica.Expect(401, "DELETE", "/auth/sessions", nil, other)
		replica.Expect(401, "POST", "/mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "ping"}, other)
		replica.Expect(200, "GET", "/memories", nil, mine)
		replica.Expect(200, "GET", "/memories", nil, key)
	}
	if a := core.Expect(200, "DELETE", "/auth/sessions", nil, mine); a.Number("ended") != 0 {
		t.Errorf("%s", a.Body)
	}
	// A session may end itself.
	core.Expect(200, "DELETE", "/auth/sessions/"+listed[0].ID, nil, mine)
	core.Expect(401, "GET", "/auth/sessions", nil, mine)
	if left := sessionsOf(t, core, core.SignIn(wallet)); len(left) != 1 || !left[0].Current {
		t.Errorf("left %+v", left)
	}
}
