package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestRetractedAndForgotten: a memory that was retracted or forgotten disappears everywhere,
// on every replica, at once. Its leaf and its proof stay, all other texts open, and the audit
// agrees. TestForgettingIsFinished shows that a forgotten text can't be read any more.
func TestRetractedAndForgotten(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct {
		method, path string // the latter after the memory's
		scopes       []string
	}{
		"retracted": {"DELETE", "", []string{"read", "write"}},
		"forgotten": {"POST", "/forget", []string{"read", "write", "retract"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disappears(t, way.method, way.path, way.scopes)
		})
	}
}

// disappears makes memories disappear by a request. A key needs more than the given scopes
// for it.
func disappears(t *testing.T, method, tail string, scopes []string) {
	t.Helper()
	s := stacktest.Start(t, stacktest.Options{Core: 2})
	core, other, extension, wallet := s.Core[0], s.Core[1], s.Extension[0], stacktest.NewWallet()
	session, visitor := core.SignIn(wallet), extension.SignIn(wallet)
	_, secret := makeKey(core, session, scopes...)
	var ids []string
	for n := range 5 {
		ids = append(ids, core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprintf("Secret thing %d", n)}, session, stacktest.With("Idempotency-Key", fmt.Sprint(n))).Text("id"))
	}
	reads := []struct {
		method, path string
		body         any
	}{
		{"GET", "/memories", nil}, {"GET", "/memories?limit=100", nil}, {"GET", "/memories?order=newest&limit=100", nil},
		{"POST", "/memories/search", map[string]any{"query": "thing"}}, {"POST", "/memories/search", map[string]any{"query": ""}},
		{"POST", "/memories/search", map[string]any{"query": "thing", "mode": "ranked"}},
		{"POST", "/memories/search", map[string]any{"query": "thing", "limit": 100}},
	}
	gone := "/memories/" + ids[2]
	for range 2 { // so that both replicas have the rows and texts in memory
		for _, c := range s.Core {
			c.Expect(200, "GET", gone, nil, session)
			for _, read := range reads {
				c.Expect(200, read.method, read.path, read.body, session)
			}
		}
	}
	receipt := core.Expect(200, "GET", gone+"/receipt", nil, session).Body
	proof := core.Expect(200, "GET", gone+"/proof", nil, session).Field("proof")

	core.Expect(403, method, gone+tail, nil, stacktest.Bearer(secret))
	core.Expect(401, method, gone+tail, nil)
	core.Expect(404, method, gone+tail, nil, core.SignIn(stacktest.NewWallet()))
	core.Expect(404, method, "/memories/"+strings.Repeat("0", 36)+tail, nil, session)
	core.Expect(200, "DELETE", "/memories/"+ids[3], nil, session)
	core.Expect(200, method, "/memories/"+ids[3]+tail, nil, session) // what was retracted, too
	if ok := core.Expect(200, method, gone+tail, nil, session).Field("ok"); ok != true {
		t.Errorf("the answer is %v", ok)
	}
	other.Expect(410, "GET", gone, nil, session)
	other.Expect(410, "GET", gone+"/receipt", nil, session)
	other.Expect(200, method, gone+tail, nil, session) // again

	for _, c := range s.Core {
		if n := c.Expect(200, "GET", "/log", nil, session).Number("memories"); n != 3 {
			t.Errorf("the log has %d memories", n)
		}
		for _, read := range reads {
			answer := c.Expect(200, read.method, read.path, read.body, session)
			if damaged := answer.Header.Get("Damaged"); damaged != "" {
				t.Errorf("%s %s %v: %s are damaged", read.method, read.path, read.body, damaged)
			}
			found := decode[[]view](t, answer.Body)
			if len(found) != 3 || found[0].ID == ids[2] || found[1].ID == ids[2] || found[2].ID == ids[2] {
				t.Errorf("%s %s %v: %v", read.method, read.path, read.body, found)
			}
		}
	}
	listed := decode[struct{ Memories []view }](t, extension.Expect(200, "GET", "/memories", nil, visitor).Body)
	if len(listed.Memories) != 3 {
		t.Errorf("the extension lists %d", len(listed.Memories))
	}
	document := string(extension.Expect(200, "GET", "/agent-cases/"+tokenOf(extension.Expect(201, "POST", "/agent-cases", nil, visitor)), nil).Body)
	if strings.Contains(document, "thing 2") || !strings.Contains(document, "thing 4") || !strings.Contains(document, "Memories: 3") {
		t.Errorf("the case: %s", document)
	}
	if now := other.Expect(200, "GET", gone+"/proof", nil, session).Field("proof"); fmt.Sprint(now) != fmt.Sprint(proof) {
		t.Errorf("the proof was %v and is %v", proof, now)
	}
	if r, err := verify.ParseReceipt(receipt); err != nil || r.Verify() != nil {
		t.Errorf("the receipt of before: %v, %v", err, r.Verify())
	}
	exported := strings.Split(strings.TrimSpace(string(other.Expect(200, "GET", "/export", nil, session).Body)), "\n")
	if len(exported) != 7 || !strings.Contains(exported[3], `"entry":null`) || strings.Contains(exported[2], `"entry":null`) {
		t.Errorf("the export has %d lines, and of what is gone %s", len(exported), exported[3])
	}
	// The write can still be repeated, and writes continue.
	if id := core.Expect(201, "POST", "/memories", map[string]any{"content": "Secret thing 2"}, session, stacktest.With("Idempotency-Key", "2")).Text("id"); id != ids[2] {
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
