package localpostgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

// runEnv makes this test program start a server on a folder and keep it running. A test
// kills this program.
const runEnv = "LOCALPOSTGRES_TEST_RUN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(runEnv); dir != "" {
		s, err := localpostgres.Start(context.Background(), localpostgres.Config{Dir: dir, NoSync: true})
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		fmt.Println("pid", s.PID())
		select {}
	}
	pgtest.Main(m)
}

func startRun(t *testing.T, dir string) (run *child.Process, postmaster int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runEnv+"="+dir)
	out, in, err := os.Pipe()
	must(t, err)
	cmd.Stdout, cmd.Stderr = in, os.Stderr
	run, err = child.Start(cmd, syscall.SIGKILL)
	must(t, err)
	t.Cleanup(func() { _ = run.Kill() })
	_ = in.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	text, ok := strings.CutPrefix(strings.TrimSpace(line), "pid ")
	if err != nil || !ok {
		t.Fatalf("the run said %q, %v", line, err)
	}
	postmaster, err = strconv.Atoi(text)
	must(t, err)
	return run, postmaster
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exe(t *testing.T, url, statement string) {
	t.Helper()
	must(t, errorOf(connect(t, url).Exec(t.Context(), statement)))
}

func wantRow(t *testing.T, url, query, want string) {
	t.Helper()
	var got string
	if err := connect(t, url).QueryRow(t.Context(), query).Scan(&got); err != nil || got != want {
		t.Errorf("%s: %q, %v; want %q", query, got, err, want)
	}
}

func stop(t *testing.T, s *localpostgres.Server) {
	t.Helper()
	must(t, s.Stop(t.Context()))
	wantGone(t, s.PID())
}

// wantGone checks that the pid of a process that has been waited for is free.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}

func TestRestartKeepsDataAndURL(t *testing.T) {
	t.Parallel()
	dir := pgtest.Folder(t)
	s := pgtest.Start(t, localpostgres.Config{Dir: dir}) // durable, as in a real run
	url := s.URL()
	exe(t, url, "CREATE TABLE kept (v text); INSERT INTO kept VALUES ('é')")
	for query, want := range map[string]string{
		"SHOW fsync":              "on",
		"SHOW synchronous_commit": "on",
		"SHOW data_checksums":     "on",
		"SHOW server_encoding":    "UTF8",
		"SHOW listen_addresses":   "",
		"SELECT datcollate FROM pg_database WHERE datname = 'ledger'": "C",
		"SELECT current_user":       "ledger",
		"SELECT current_database()": "ledger",
		"SELECT rolsuper::text FROM pg_roles WHERE rolname = current_user": "false",
	} {
		wantRow(t, url, query, want)
	}
	stop(t, s)
	s = pgtest.Start(t, localpostgres.Config{Dir: dir, NoSync: true, Settings: map[string]string{"synchronous_commit": "off"}})
	if s.URL() != url {
		t.Errorf("URL became %s, was %s", s.URL(), url)
	}
	wantRow(t, url, "SELECT v FROM kept", "é")
	wantRow(t, url, "SHOW synchronous_commit", "off")
}

func TestStopInAHurryLosesNothing(t *testing.T) {
	t.Parallel()
	dir := pgtest.Folder(t)
	s := pgtest.Start(t, localpostgres.Config{Dir: dir, NoSync: true})
	exe(t, s.URL(), "CREATE TABLE kept (v text); INSERT INTO kept VALUES ('kept')")
	hurry, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Stop(hurry); !errors.Is(err, child.ErrForced) {
		t.Errorf("got %v, want ErrForced", err)
	}
	wantGone(t, s.PID())
	s = pgtest.Start(t, localpostgres.Config{Dir: dir, NoSync: true})
	wantRow(t, s.URL(), "SELECT v FROM kept", "kept")
	must(t, s.Kill())
	wantGone(t, s.PID())
	s = pgtest.Start(t, localpostgres.Config{Dir: dir, NoSync: true})
	wantRow(t, s.URL(), "SELECT v FROM kept", "kept")
}

// TestHalfAClusterIsMadeAnew: initdb was killed. The cluster of another version of
// PostgreSQL goes, too.
func TestHalfAClusterIsMadeAnew(t *testing.T) {
	t.Parallel()
	dir := pgtest.Folder(t)
	s := pgtest.Start(t, localpostgres.Config{Dir: dir, NoSync: true})
	var cluster string
	must(t, connect(t, s.AdminURL()).QueryRow(t.Context(), "SHOW data_directory").Scan(&cluster))
	stop(t, s)
	must(t, os.Rename(cluster, cluster+".new"))
	old := filepath.Join(filepath.Dir(cluster), "cluster-9")
	must(t, os.Mkdir(old, 0o700))
	s = pgtest.Start(t, localpostgres.Config{Dir: dir, NoSync: true})
	wantRow(t, s.URL(), "SELECT 'up'", "up")
	for _, left := range []string{cluster + ".new", old} {
		if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("left over: %s, %v", left, err)
		}
	}
}
