package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestNothingIsAppendedToAnOlderLog: an older copy of the log replaces the log that the
// database was made from, first under running services, and then under services that
// start on it. Writes are refused with the reason, and nothing is stored. After a forced
// rebuild everything works again, without a restart.
func TestNothingIsAppendedToAnOlderLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.StartProcess(t, natstest.Dir(dir))
	servers := stacktest.Options{Core: 2, NATSURL: server.URL(), DatabaseURL: pgtest.Database(t)}
	s := stacktest.Start(t, servers)
	memory := map[string]any{"content": "x", "metadata": map[string]any{}}
	var sessions []stacktest.Header
	for range 3 {
		session := s.Core[0].SignIn(stacktest.NewWallet())
		s.Core[0].Expect(201, "POST", "/memories", memory, session)
		sessions = append(sessions, session)
	}
	older := filepath.Join(t.TempDir(), "older")
	copyLog := func(from, to string) {
		t.Helper()
		noErr(t, os.CopyFS(to, os.DirFS(from)))
	}
	server.Stop()
	copyLog(dir, older)
	server.Start()
	readThroughOutage(t, s.Core[0], sessions[0], startTimeout)
	s.Core[0].Expect(201, "POST", "/memories", memory, sessions[0])
	readThroughOutage(t, s.Core[0], sessions[0], startTimeout) // projected

	server.Stop()
	noErr(t, os.RemoveAll(dir))
	copyLog(older, dir)
	server.Start()
	end := endOfLog(t, server.URL())
	refused := func(when string) {
		t.Helper()
		for replica, core := range s.Core { // only one of them has the owners in memory
			for n, session := range sessions {
				a := core.Do("POST", "/memories", memory, session)
				for a.Status == 503 && strings.Contains(a.Text("error"), "temporarily") { // not reconnected yet
					a = core.Do("POST", "/memories", memory, session)
				}
				if a.Status != 503 || !strings.Contains(a.Text("error"), "the log is older") || a.Header.Get("Retry-After") == "" {
					t.Errorf("%s, replica %d, owner %d: %d %s", when, replica, n, a.Status, a.Body)
				}
			}
		}
		if is := endOfLog(t, server.URL()); is != end {
			t.Fatalf("%s: the log went from %d to %d", when, end, is)
		}
	}
	refused("under services that run")
	s.Stop()
	s = stacktest.Start(t, servers)
	refused("under services that start")

	result, err := assembly.Rebuild(t.Context(), s.Config, rebuild.Config{Force: true})
	if err != nil || !result.Swapped {
		t.Fatalf("%+v, %v", result, err)
	}
	if all := readThroughOutage(t, s.Core[0], sessions[0], startTimeout); len(all) != 1 {
		t.Errorf("%d memories, and the log has 1", len(all))
	}
	s.Core[0].Expect(201, "POST", "/memories", memory, sessions[0])
	if all := readThroughOutage(t, s.Core[1], sessions[0], startTimeout); len(all) != 2 {
		t.Errorf("%d memories after another", len(all))
	}
	wantAudit(t, s.Config)
}

func endOfLog(t *testing.T, url string) uint64 {
	t.Helper()
	nc, _ := natstest.Connect(t, url)
	log, err := eventlog.Open(t.Context(), nc)
	noErr(t, err)
	head, err := log.Head(t.Context())
	noErr(t, err)
	return head
}
