package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestARunStartsItsDatabaseAgain kills the database of a run. Reads are refused until a
// new one runs, and then show everything, including data that the old one had committed
// but not written yet. A database that keeps ending ends the run.
func TestARunStartsItsDatabaseAgain(t *testing.T) {
	slow(t)
	t.Parallel()
	const restarts = 3
	dir := filepath.Join(pgtest.Folder(t), "data")
	r := startRun(t, dir)
	core, _ := r.clients()
	session := core.SignIn(stacktest.NewWallet())
	for round := range restarts {
		for n := range 20 {
			core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprintf("round %d number %d", round, n)}, session)
		}
		want := 21*round + 20
		if got := len(readThroughOutage(t, core, session, startTimeout)); got != want {
			t.Fatalf("round %d: %d memories before the kill, want %d", round, got, want)
		}
		killDatabase(t, dir)
		killed := time.Now()
		// While the database is down, writes go into the log.
		core.Expect(201, "POST", "/memories", map[string]any{"content": "meanwhile"}, session)
		all := readThroughOutage(t, core, session, startTimeout)
		if len(all) != want+1 || all[want].Content != "meanwhile" {
			t.Fatalf("round %d: %d memories after the kill, want %d", round, len(all), want+1)
		}
		t.Logf("read again after %s", time.Since(killed))
	}
	killDatabase(t, dir)
	select {
	case err := <-r.exited:
		if err == nil || !strings.Contains(r.output(), fmt.Sprintf("ended %d times", restarts+1)) {
			t.Errorf("the run ended with %v\n%s", err, r.output())
		}
	case <-time.After(startTimeout):
		t.Errorf("the run goes on\n%s", r.output())
	}
	noProcessUses(t, dir)
}

// readThroughOutage reads until it gets an answer, within a time. Earlier answers must be
// 503. Each of them takes a while, so the loop does not wait.
func readThroughOutage(t *testing.T, core *stacktest.Client, session stacktest.Header, within time.Duration) []view {
	t.Helper()
	for deadline := time.Now().Add(within); ; {
		a := core.Do("GET", "/memories", nil, session)
		switch {
		case a.Status == 200:
			return decode[[]view](t, a.Body)
		case a.Status != 503 || a.Header.Get("Retry-After") == "":
			t.Fatalf("status %d: %s", a.Status, a.Body)
		case time.Now().After(deadline):
			t.Fatalf("still refused: %s", a.Body)
		}
	}
}

// killDatabase kills the database server of the run on a folder, and returns once the
// server is gone.
func killDatabase(t *testing.T, dir string) {
	t.Helper()
	where, err := datadir.LoadRun(dir)
	noErr(t, err)
	conn, err := pgx.Connect(t.Context(), where.DatabaseURL)
	noErr(t, err)
	defer conn.Close(t.Context())
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", conn.PgConn().PID()))
	if err != nil {
		t.Skip("no /proc to find the server in")
	}
	// The parent's process ID is the second word after the name, which is in parentheses.
	_, rest, _ := strings.Cut(string(stat), ") ")
	server, err := strconv.Atoi(strings.Fields(rest)[1])
	noErr(t, err)
	noErr(t, syscall.Kill(server, syscall.SIGKILL))
	// The session also ends, once its server is gone.
	if _, err := conn.WaitForNotification(t.Context()); err == nil {
		t.Fatal("the session goes on")
	}
}
