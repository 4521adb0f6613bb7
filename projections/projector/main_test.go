package projector_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/schema"
)

var must, slow, errorOf = testkit.Must, testkit.Slow, testkit.ErrorOf

// A projector process is this test binary with these variables in its environment.
const (
	envDatabase = "LEDGER_TEST_PROJECTOR_DATABASE"
	envLog      = "LEDGER_TEST_PROJECTOR_LOG"
)

func TestMain(m *testing.M) {
	if os.Getenv(envDatabase) != "" {
		fmt.Fprintln(os.Stderr, projectorProcess())
		os.Exit(1)
	}
	pgtest.Main(m)
}

// projectorProcess projects, in short slices, until it is killed.
func projectorProcess() error {
	ctx := context.Background()
	pool, err := schema.OpenPool(ctx, os.Getenv(envDatabase), schema.Live, 2)
	if err != nil {
		return err
	}
	nc, err := nats.Connect(os.Getenv(envLog))
	if err != nil {
		return err
	}
	log, err := eventlog.Open(ctx, nc)
	if err != nil {
		return err
	}
	return projector.New(projector.Config{Projections: readmodel.All(), Pool: pool, Log: log, SliceRecords: 20}).Run(ctx)
}

func startProjectorProcess(t *testing.T, databaseURL, logURL string) *child.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envDatabase+"="+databaseURL, envLog+"="+logURL)
	p, err := child.Start(cmd, syscall.SIGKILL)
	must(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	return p
}

// empty returns empty read models, their database's URL, and an empty log.
func empty(t testing.TB) (url string, pool *pgxpool.Pool, log *fixture.Log) {
	t.Helper()
	url, pool = fixture.Database(t)
	return url, pool, fixture.NewLog(t)
}

// project starts a projector and returns a function that stops it.
func project(t testing.TB, pool *pgxpool.Pool, log projector.Log, change ...func(*projector.Config)) (*projector.Runner, func() error) {
	t.Helper()
	cfg := projector.Config{Projections: readmodel.All(), Pool: pool, Log: log, MaxBackoff: 200 * time.Millisecond, Logger: fixture.Quiet()}
	for _, c := range change {
		c(&cfg)
	}
	r := projector.New(cfg)
	return r, fixture.Running(t, r.Run)
}

// caughtUp waits until the read models hold the whole log.
func caughtUp(t testing.TB, pool *pgxpool.Pool, log projector.Log) {
	t.Helper()
	must(t, fence.New(pool, log, fence.Options{Timeout: time.Minute}).WaitAll(t.Context()))
}

// ready waits until the projector is ready.
func ready(t testing.TB, r *projector.Runner) {
	t.Helper()
	fixture.Eventually(t, 2*time.Minute, r.Ready)
}

// refuses waits until Ready returns the given reason for applying nothing.
func refuses(t testing.TB, r *projector.Runner, why error) {
	t.Helper()
	fixture.Eventually(t, 2*time.Minute, func() error {
		if err := r.Ready(); !errors.Is(err, why) {
			return fmt.Errorf("ready says %w, want %w", err, why)
		}
		return nil
	})
}

// inState waits until the projector is in a state.
func inState(t testing.TB, r *projector.Runner, state projector.State) {
	t.Helper()
	fixture.Eventually(t, 2*time.Minute, func() error {
		if s := r.Status(); s.State != state {
			return fmt.Errorf("status %+v, want %s", s, state)
		}
		return nil
	})
}

// sameFromTheStart projects the log again into another schema, and compares the rows.
func sameFromTheStart(t testing.TB, url string, pool *pgxpool.Pool, log projector.Log) {
	t.Helper()
	again := fixture.Pool(t, url, "again")
	project(t, again, log)
	caughtUp(t, again, log)
	first, second := fixture.Dump(t, pool, readmodel.All()...), fixture.Dump(t, again, readmodel.All()...)
	if difference := fixture.Difference(first, second); difference != "" || len(first) == 0 {
		t.Errorf("%d rows and %d rows: %s", len(first), len(second), difference)
	}
}

// sql runs a statement.
func sql(t testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	t.Helper()
	must(t, errorOf(pool.Exec(t.Context(), statement, args...)))
}
