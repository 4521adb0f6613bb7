package deployed_test

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestAnAgentsLinksWithRolesApart: the core API makes the links of an agent with only its
// own role, and the extension API answers them with only its own. Not parallel, because
// it starts many processes.
func TestAnAgentsLinksWithRolesApart(t *testing.T) {
	d := deploy(t)
	d.projector()
	_, core := d.api("core-api")
	_, extension := d.api("extension-api")
	session := core.SignIn(stacktest.NewWallet())
	d.settled(core, session)
	key := stacktest.Bearer(core.Expect(201, "POST", "/keys", map[string]any{"label": "agent", "scopes": []string{"share"}}, session).Text("key"))
	link := func(tool string) string {
		t.Helper()
		call := map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool}}
		a := core.Expect(200, "POST", "/mcp", call, key, stacktest.With("Accept", "application/json, text/event-stream"))
		var answer struct {
			Result struct {
				StructuredContent struct{ URL string }
			}
		}
		must(t, json.Unmarshal(a.Body, &answer))
		u, err := url.Parse(answer.Result.StructuredContent.URL)
		if err != nil || u.Host != "ledger.test" {
			t.Fatalf("%s: %v: %s", tool, err, a.Body)
		}
		return u.Path
	}
	extension.Expect(201, "POST", link("leave_memory"), map[string]any{"content": "left"})
	read := link("open_case")
	extension.Expect(200, "GET", read, nil)
	extension.Expect(404, "GET", read, nil)
}
