package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/backup"
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	summary, err := assembly.Audit(ctx, cfg, assembly.AuditOptions{Report: func(f audit.Finding) { t.Errorf("finding: %v", f) }})
	if err != nil || !summary.Good() {
		t.Fatalf("%+v, %v", summary, err)
	}
	return summary
}

// All that the services wrote is replayed into fresh tables, which are compared with the
// live tables. Then the audit opens every content.
func TestReplayGivesTheLiveRows(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2, Extension: 2})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { live(s, stacktest.NewWallet(), 70) })
	}
	group.Wait()
	result, err := assembly.Rebuild(t.Context(), s.Config, rebuild.Config{Report: func(d audit.Finding) { t.Errorf("difference: %v", d) }})
	if err != nil || !result.Swapped || result.Rows < 4*76 {
		t.Errorf("%+v, %v", result, err)
	}
	summary := wantAudit(t, s.Config)
	if summary.Leaves != 4*76 || summary.LeavesRecomputed != summary.Leaves || summary.Rows["memories"] != 4*76 || len(summary.NotChecked) != 1 {
		t.Errorf("%+v", summary)
	}
}

// Tables are swapped repeatedly while both APIs work: no request fails, no answer is
// stale, and the log's root stays correct.
func TestRebuildUnderLoadOfBothDoors(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2, Extension: 1})
	working, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var requests atomic.Int64
	for i := range 4 {
		wallet := stacktest.NewWallet()
		session, other := s.Core[0].SignIn(wallet), s.Extension[0].SignIn(wallet)
		group.Go(func() {
			for n := 1; working.Err() == nil && !t.Failed(); n++ {
				path := "/memories"
				if n%2 == 0 {
					a := s.Core[n/2%2].Expect(201, "POST", path, map[string]any{"content": fmt.Sprint(i, n), "metadata": map[string]any{}}, session)
					path += "/" + a.Text("id")
				} else {
					a := s.Extension[0].Expect(201, "POST", path, map[string]any{"content": fmt.Sprint(i, n), "source": "load"}, other)
					path += "/" + a.Text("id")
				}
				core := s.Core[(n+1)/2%2]
				core.Expect(200, "GET", path, nil, session)
				checkProof(t, decode[proofAnswer](t, core.Expect(200, "GET", path+"/proof", nil, session).Body), uint64(n))
				if head := core.Expect(200, "GET", "/log", nil, session); head.Number("treeSize") != n {
					t.Errorf("stale: %s after %d writes", head.Body, n)
				}
				key := s.Core[0].Expect(201, "POST", "/keys", map[string]any{"label": "k"}, session)
				s.Core[1].Expect(200, "GET", "/log", nil, stacktest.Bearer(key.Text("key")))
				s.Core[0].Expect(200, "DELETE", "/keys/"+key.Text("id"), nil, session)
				s.Core[1].Expect(401, "GET", "/log", nil, stacktest.Bearer(key.Text("key")))
				requests.Add(8)
			}
		})
	}
	for _, projection := range []string{"", "memories", "", "apikeys", ""} {
		result, err := assembly.Rebuild(t.Context(), s.Config, rebuild.Config{
			Projection: projection, Report: func(d audit.Finding) { t.Errorf("difference: %v", d) }})
		if err != nil || !result.Swapped {
			t.Errorf("%q: %+v, %v", projection, result, err)
		}
		wantAudit(t, s.Config) // while the writers run
	}
	stop()
	group.Wait()
	wantAudit(t, s.Config)
	t.Logf("%d requests", requests.Load())
}

// TestARebuildCuresWhatRuns: an API that has read wrong rows, and has cached results made
// from them, answers from the new rows without a restart.
func TestARebuildCuresWhatRuns(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	db, err := pgx.Connect(t.Context(), s.Config.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
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

// TestAnAlteredRowGetsNothingIntoTheLog: a service that starts on a row that contradicts
// the log stores nothing for that owner. No rebuild could follow an event based on that
// row.
func TestAnAlteredRowGetsNothingIntoTheLog(t *testing.T) {
	t.Parallel()
	servers := stacktest.Options{NATSURL: natstest.Start(t).URL(), DatabaseURL: pgtest.Database(t)}
	memory := map[string]any{"content": "x", "metadata": map[string]any{}}
	s := stacktest.Start(t, servers)
	wallet, other := stacktest.NewWallet(), stacktest.NewWallet()
	session, another := s.Core[0].SignIn(wallet), s.Core[0].SignIn(other)
	for range 3 {
		s.Core[0].Expect(201, "POST", "/memories", memory, session)
	}
	s.Core[0].Expect(200, "GET", "/memories", nil, session) // projected
	s.Stop()
	db, err := pgx.Connect(t.Context(), s.Config.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(t.Context())) }()
	if _, err := db.Exec(t.Context(), `UPDATE ledger.memories SET leaf_index = 6 WHERE owner = $1 AND leaf_index = 2`, wallet.PublicKey); err != nil {
		t.Fatal(err)
	}
	s = stacktest.Start(t, servers)
	s.Core[0].Expect(503, "POST", "/memories", memory, session)
	s.Core[0].Expect(201, "POST", "/memories", memory, another)
	if result, err := assembly.Rebuild(t.Context(), s.Config, rebuild.Config{Force: true}); err != nil || !result.Swapped {
		t.Fatalf("%+v, %v", result, err)
	}
	if n := s.Core[0].Expect(201, "POST", "/memories", memory, session).Number("leafIndex"); n != 3 {
		t.Errorf("the next leaf is %d", n)
	}
	wantAudit(t, s.Config)
}

// A backup that was made during writes is restored on an empty machine: it gives the same
// answers and the same roots, and the audit finds nothing.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	data, copies := t.TempDir(), t.TempDir()
	s := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) { c.DataDir = data }})
	wallet := stacktest.NewWallet()
	session := live(s, wallet, 300)
	working, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	started := make(chan struct{})
	group.Go(func() {
		other := s.Core[0].SignIn(stacktest.NewWallet())
		for n := 0; working.Err() == nil; n++ {
			s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprint(n), "metadata": map[string]any{}}, other)
			if n == 10 {
				close(started)
			}
		}
	})
	<-started
	say := func(d backup.Done) { t.Logf("%+v", d) }
	if err := assembly.Backup(t.Context(), s.Config, copies, nil, say, func(string, bool, uint64, uint64) {}); err != nil {
		t.Fatal(err)
	}
	stop()
	group.Wait()
	if err := assembly.Backup(t.Context(), s.Config, copies, nil, say, func(string, bool, uint64, uint64) {}); err == nil {
		t.Error("a backup was written over another")
	}
	answers := func(s *stacktest.Stack) string {
		return string(s.Core[0].Expect(200, "GET", "/log", nil, session).Body) + string(s.Core[0].Expect(200, "GET", "/memories", nil, session).Body)
	}
	want := answers(s)
	s.Stop()

	fresh := s.Config
	fresh.NATSURL, fresh.DataDir = "", t.TempDir()
	if err := assembly.Restore(t.Context(), fresh, copies, nil, say, func(string, bool, uint64, uint64) {}); err != nil {
		t.Fatal(err)
	}
	if err := assembly.Restore(t.Context(), fresh, copies, nil, say, func(string, bool, uint64, uint64) {}); err == nil {
		t.Error("a log was restored over another")
	}
	server := natstest.Start(t, natstest.Dir(fresh.DataDir+"/nats"))
	restored := stacktest.Start(t, stacktest.Options{NATSURL: server.URL(), DatabaseURL: pgtest.Database(t)})
	if got := answers(restored); got != want {
		t.Errorf("restored: %.300s\nbefore: %.300s", got, want)
	}
	session = live(restored, wallet, 3) // the restored service takes writes
	summary := wantAudit(t, restored.Config)
	if summary.LeavesRecomputed != summary.Leaves {
		t.Errorf("%+v", summary)
	}
}
