package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// live does a bit of everything as one owner and returns a session.
func live(s *stacktest.Stack, w stacktest.Wallet, memories int) stacktest.Header {
	core, extension := s.Core[0], s.Extension[0]
	session, other := core.SignIn(w), extension.SignIn(w)
	for i := range memories {
		core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprint("memory ", i), "metadata": map[string]any{"n": i}},
			session, stacktest.With("Idempotency-Key", fmt.Sprint("key-", i)))
	}
	core.Expect(201, "POST", "/memories/batch", batchOf("one", "two", "three"), session)
	extension.Expect(201, "POST", "/memories", map[string]any{"content": "from the tab", "source": "tab"}, other)
	key := core.Expect(201, "POST", "/keys", map[string]any{"label": "k"}, session)
	core.Expect(200, "GET", "/memories", nil, stacktest.Bearer(key.Text("key")))
	core.Expect(200, "DELETE", "/keys/"+key.Text("id"), nil, session)
	for range 2 { // the second drop revokes the first
		drop := extension.Expect(201, "POST", "/memory-drops", map[string]any{"maxWrites": 2}, other)
		extension.Expect(201, "POST", strings.TrimPrefix(drop.Text("url"), extension.URL), map[string]any{"content": "dropped", "source": "pen"})
	}
	made := extension.Expect(201, "POST", "/agent-cases", map[string]any{"maxReads": 2}, other)
	extension.Expect(200, "GET", strings.TrimPrefix(made.Text("url"), extension.URL), nil)
	ended := extension.SignIn(w)
	extension.Expect(200, "POST", "/auth/logout", nil, ended)
	return session
}

// wantAudit audits everything available, and fails the test unless the audit is good.
func wantAudit(t *testing.T, cfg config.Config) audit.Summary {
	t.Helper()
	summary, err := assembly.Audit(t.Context(), cfg, assembly.AuditOptions{Report: func(f audit.Finding) { t.Errorf("finding: %v", f) }})
	if err != nil || !summary.Good() {
		t.Fatalf("%+v, %v", summary, err)
	}
	return summary
}

// TestARebuildCuresWhatRuns: an API that has read wrong rows, and has cached results made
// from them, answers from the new rows without a restart.
func TestARebuildCuresWhatRuns(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	db, err := pgx.Connect(t.Context(), s.Config.DatabaseURL)
	noErr(t, err)
	defer func() { _ = db.Close(context.WithoutCancel(t.Context())) }()
	wallet := stacktest.NewWallet()
	session := live(s, wallet, 3)
	const leaves = 9
	core := s.Core[0]
	size := func() int {
		t.Helper()
		return core.Expect(200, "GET", "/log", nil, session).Number("treeSize")
	}
	if n := size(); n != leaves {
		t.Fatalf("%d leaves", n)
	}
	// Add a leaf, so that the next size does not come from the cached right answer.
	core.Expect(201, "POST", "/memories", map[string]any{"content": "x", "metadata": map[string]any{}}, session)
	// Delete the rows only once the leaf is projected: a projector refuses a leaf that
	// does not continue the rows.
	soon, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for altered := false; !altered; {
		tag, err := db.Exec(soon, `DELETE FROM ledger.memories WHERE owner = $1
			AND EXISTS (SELECT FROM ledger.memories WHERE owner = $1 AND leaf_index = $2)`, wallet.PublicKey, leaves)
		noErr(t, err)
		altered = tag.RowsAffected() == leaves+1
	}
	if n := size(); n != 0 {
		t.Fatalf("%d leaves by the wrong rows", n)
	}
	result, err := assembly.Rebuild(t.Context(), s.Config, rebuild.Config{Force: true})
	if err != nil || !result.Swapped || result.Differences == 0 {
		t.Fatalf("%+v, %v", result, err)
	}
	if n := size(); n != leaves+1 { // the first answer after the rebuild has said so
		t.Errorf("%d leaves after the rebuild", n)
	}
	if list := decode[[]any](t, core.Expect(200, "GET", "/memories", nil, session).Body); len(list) != leaves+1 {
		t.Errorf("%d memories", len(list))
	}
	if n := core.Expect(201, "POST", "/memories", map[string]any{"content": "y", "metadata": map[string]any{}}, session).Number("leafIndex"); n != leaves+1 {
		t.Errorf("the next leaf is %d", n)
	}
	wantAudit(t, s.Config)
}
