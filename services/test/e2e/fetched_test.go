package e2e_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestOnFetchedPostgres is a local run on a machine whose only PostgreSQL is the fetched
// one.
func TestOnFetchedPostgres(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	bin, err := localpostgres.Fetch(t.Context(), nil)
	noErr(t, err)
	dir := filepath.Join(pgtest.Folder(t), "data")
	// As root, the user's cache is closed to the server's user.
	programs := filepath.Join(filepath.Dir(pgtest.Folder(t)), "programs")
	noErr(t, os.CopyFS(programs, os.DirFS(filepath.Dir(bin))))
	r := startRun(t, dir, "PATH="+filepath.Join(programs, "bin")+":"+os.Getenv("PATH"))
	core, _ := r.clients()
	session := core.SignIn(stacktest.NewWallet())
	kept := core.Expect(201, "POST", "/memories", map[string]any{"content": "Fetched, not installed", "metadata": map[string]any{}}, session)
	if got := core.Expect(200, "GET", "/memories/"+kept.Text("id"), nil, session).Text("content"); got != "Fetched, not installed" {
		t.Errorf("read back %q", got)
	}
	found := core.Expect(200, "POST", "/memories/search", map[string]any{"query": "NOT INST"}, session)
	var memories []map[string]any
	if err := json.Unmarshal(found.Body, &memories); err != nil || len(memories) != 1 {
		t.Errorf("search found %s, %v", found.Body, err)
	}
	// The run used the fetched server, not the system's.
	where, err := datadir.LoadRun(dir)
	noErr(t, err)
	conn, err := pgx.Connect(t.Context(), where.DatabaseURL)
	noErr(t, err)
	var version string
	err = errors.Join(conn.QueryRow(t.Context(), "SHOW server_version").Scan(&version), conn.Close(t.Context()))
	if err != nil || !strings.HasPrefix(version, "17.") {
		t.Errorf("the server is of version %q, %v", version, err)
	}
	r.stop()
}
