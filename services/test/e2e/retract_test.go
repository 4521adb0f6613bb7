package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestRetract: a retracted memory disappears everywhere, on every replica, at once. Its
// leaf and its proof stay, and the audit agrees.
func TestRetract(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	core, other, extension, wallet := s.Core[0], s.Core[1], s.Extension[0], stacktest.NewWallet()
	session, visitor := core.SignIn(wallet), extension.SignIn(wallet)
	key := stacktest.Bearer(core.Expect(201, "POST", "/keys", map[string]any{"label": "k"}, session).Text("key"))
	var ids []string
	for n := range 5 {
		ids = append(ids, core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprintf("Regrettable thing %d", n)}, session, stacktest.With("Idempotency-Key", fmt.Sprint(n))).Text("id"))
	}
	gone := "/memories/" + ids[2]
	for range 2 { // so that both replicas have the rows and texts in memory
		for _, c := range s.Core {
			c.Expect(200, "GET", gone, nil, session)
			c.Expect(200, "GET", "/memories", nil, session)
			c.Expect(200, "POST", "/memories/search", map[string]any{"query": "thing", "mode": "ranked"}, session)
		}
	}
	proof := core.Expect(200, "GET", gone+"/proof", nil, session).Field("proof")

	core.Expect(403, "DELETE", gone, nil, key)
	core.Expect(401, "DELETE", gone, nil)
	core.Expect(404, "DELETE", gone, nil, core.SignIn(stacktest.NewWallet()))
	core.Expect(404, "DELETE", "/memories/"+strings.Repeat("0", 36), nil, session)
	core.Expect(200, "DELETE", gone, nil, session)
	other.Expect(410, "GET", gone, nil, session)
	other.Expect(410, "GET", gone+"/receipt", nil, session)
	core.Expect(200, "DELETE", gone, nil, session) // again

	for _, c := range s.Core {
		for _, read := range []struct {
			method, path string
			body         any
		}{
			{"GET", "/memories", nil}, {"GET", "/memories?limit=100", nil}, {"GET", "/memories?order=newest&limit=100", nil},
			{"POST", "/memories/search", map[string]any{"query": "thing"}}, {"POST", "/memories/search", map[string]any{"query": ""}},
			{"POST", "/memories/search", map[string]any{"query": "thing", "mode": "ranked"}},
			{"POST", "/memories/search", map[string]any{"query": "thing", "limit": 100}},
		} {
			found := decode[[]view](t, c.Expect(200, read.method, read.path, read.body, session).Body)
			if len(found) != 4 {
				t.Errorf("%s %s %v gives %d memories", read.method, read.path, read.body, len(found))
			}
			for _, m := range found {
				if m.ID == ids[2] {
					t.Errorf("%s %s %v gives what was retracted", read.method, read.path, read.body)
				}
			}
		}
	}
	listed := decode[struct{ Memories []view }](t, extension.Expect(200, "GET", "/memories", nil, visitor).Body)
	if len(listed.Memories) != 4 {
		t.Errorf("the extension lists %d", len(listed.Memories))
	}
	minted := extension.Expect(201, "POST", "/agent-cases", nil, visitor)
	document := string(extension.Expect(200, "GET", "/agent-cases/"+tokenOf(minted), nil).Body)
	if strings.Contains(document, "thing 2") || !strings.Contains(document, "thing 3") || !strings.Contains(document, "Memories: 4") {
		t.Errorf("the case: %s", document)
	}
	if now := other.Expect(200, "GET", gone+"/proof", nil, session).Field("proof"); fmt.Sprint(now) != fmt.Sprint(proof) {
		t.Errorf("the proof was %v and is %v", proof, now)
	}
	exported := strings.Split(strings.TrimSpace(string(other.Expect(200, "GET", "/export", nil, session).Body)), "\n")
	if len(exported) != 7 || !strings.Contains(exported[3], `"entry":null`) || strings.Contains(exported[2], `"entry":null`) {
		t.Errorf("the export has %d lines, and of what was retracted %s", len(exported), exported[3])
	}
	// The write can still be repeated, and writes continue.
	if id := core.Expect(201, "POST", "/memories", map[string]any{"content": "Regrettable thing 2"}, session, stacktest.With("Idempotency-Key", "2")).Text("id"); id != ids[2] {
		t.Errorf("the repeated write gives %s", id)
	}
	if n := other.Expect(201, "POST", "/memories", map[string]any{"content": "more"}, session).Number("leafIndex"); n != 5 {
		t.Errorf("the next leaf is %d", n)
	}
	agrees(t, s)
}

// agrees fails the test if the audit reports anything.
func agrees(t *testing.T, s *stacktest.Stack) {
	t.Helper()
	_, err := assembly.Audit(t.Context(), s.Config, assembly.AuditOptions{Report: func(f audit.Finding) { t.Errorf("%+v", f) }})
	if err != nil {
		t.Error(err)
	}
}
