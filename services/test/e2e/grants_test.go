package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// liveGrant is a grant as GET /grants shows it.
type liveGrant struct {
	ID, Kind             string
	By                   struct{ Kind, ID string }
	CreatedAt, ExpiresAt time.Time
	MaxUses              int
	RemainingUses        int
}

// TestGrantsEndWithTheirKey: a key hands out links only with the scope share, no link
// outlives its key, and the owner sees each live link and can end it.
func TestGrantsEndWithTheirKey(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2, Extension: 2})
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	session, visitor := core.SignIn(wallet), extension.SignIn(wallet)
	core.Expect(201, "POST", "/memories", map[string]any{"content": "private"}, session)
	listed := func(c *stacktest.Client) []liveGrant {
		t.Helper()
		return decode[[]liveGrant](t, c.Expect(200, "GET", "/grants", nil, session).Body)
	}
	if all := listed(core); len(all) != 0 {
		t.Errorf("at first: %v", all)
	}
	makeShort := func(scopes ...string) (id, secret string) {
		t.Helper()
		made := core.Expect(201, "POST", "/keys", map[string]any{"label": "x", "scopes": scopes, "expiresAt": time.Now().Add(time.Hour)}, session)
		if by, _ := made.Field("createdBy").(map[string]any); by["kind"] != "session" {
			t.Errorf("createdBy of %s", made.Body)
		}
		return made.Text("id"), made.Text("key")
	}
	mint := func(secret, tool string) (ok bool, url, text string) {
		t.Helper()
		result, text := call(t, agent(t, core, secret), tool, map[string]any{"expiresInMinutes": 1440})
		if result.IsError {
			return false, "", text
		}
		out := result.StructuredContent.(map[string]any)
		return true, strings.TrimPrefix(out["url"].(string), extension.URL), text
	}

	_, unshared := makeShort("read", "write", "retract")
	for _, tool := range []string{"open_case", "leave_memory"} {
		if ok, _, text := mint(unshared, tool); ok || !strings.Contains(text, `scope "share"`) {
			t.Errorf("%s without share: %s", tool, text)
		}
	}

	// The life of a link is cut to its key's. Both show in the list, on every replica.
	id, secret := makeShort("read", "share")
	_, document, _ := mint(secret, "open_case")
	_, drop, _ := mint(secret, "leave_memory")
	all := listed(s.Core[1])
	if len(all) != 2 || all[0].Kind != "agent-case" || all[1].Kind != "memory-drop" {
		t.Fatalf("listed %+v", all)
	}
	for _, g := range all {
		if left := time.Until(g.ExpiresAt); g.By.Kind != "key" || g.By.ID != id || left > time.Hour || left < 50*time.Minute || g.MaxUses != 1 || g.RemainingUses != 1 {
			t.Errorf("listed %+v", g)
		}
	}
	core.Expect(200, "DELETE", "/keys/"+id, nil, session)
	for _, c := range s.Extension {
		c.Expect(404, "GET", document, nil)
		c.Expect(404, "POST", drop, `{"content":"too late"}`)
	}
	if all := listed(s.Core[1]); len(all) != 0 {
		t.Errorf("after the key was revoked: %v", all)
	}

	// An owner may end each link.
	made := extension.Expect(201, "POST", "/memory-drops", map[string]any{"maxWrites": 3}, visitor)
	extension.Expect(201, "POST", "/memory-drops/"+tokenOf(made), `{"content":"left"}`)
	all = listed(core)
	if len(all) != 1 || all[0].ID != made.Text("id") || all[0].By.Kind != "session" || all[0].MaxUses != 3 || all[0].RemainingUses != 2 {
		t.Errorf("listed %+v", all)
	}
	stranger := core.SignIn(stacktest.NewWallet())
	core.Expect(404, "DELETE", "/grants/"+made.Text("id"), nil, stranger)
	core.Expect(404, "DELETE", "/grants/none", nil, session)
	core.Expect(403, "GET", "/grants", nil, stacktest.Bearer(unshared))
	core.Expect(403, "DELETE", "/grants/"+made.Text("id"), nil, stacktest.Bearer(unshared))
	for range 2 { // ending twice is not an error
		core.Expect(200, "DELETE", "/grants/"+made.Text("id"), nil, session)
	}
	extension.Expect(404, "POST", "/memory-drops/"+tokenOf(made), `{"content":"too late"}`)
	wantAudit(t, s.Config)
}
