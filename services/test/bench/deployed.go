package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/valyala/fasthttp"

	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/test/cluster"
)

// startDeployed runs the services of compose.yaml as processes on this machine: three
// nodes of the log with TLS and roles, PostgreSQL, a core API and a projector. The plain
// service's PostgreSQL has one synchronous standby. It gains from its unencrypted
// connection to the database.
func (w *world) startDeployed(ctx context.Context) error {
	if err := w.startReplicated(ctx); err != nil {
		return err
	}
	database, err := w.startDatabase(ctx, "database")
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	ledger, err := filepath.Abs(w.ledger)
	if err != nil {
		return err
	}
	server := filepath.Join(w.dir, "nats-server")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", server, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		return fmt.Errorf("build nats-server: %w: %s", err, out)
	}
	c, err := cluster.Start(cluster.Config{Root: root, Dir: w.dir, Ledger: ledger, Server: server, Database: database.URL()})
	w.closers = append(w.closers, func(context.Context) { c.Close() })
	if err != nil {
		return err
	}
	projector, err := c.Projector("LOG_LEVEL=warn")
	if err != nil {
		return err
	}
	api, url, err := c.API("core-api", "LOG_LEVEL=warn")
	w.core, w.processes = url, []*cluster.Process{projector, api}
	return err
}

// startReplicated starts the plain service on a database whose COMMITs wait for a standby.
func (w *world) startReplicated(ctx context.Context) error {
	primary, err := w.startDatabase(ctx, "plain")
	if err != nil {
		return err
	}
	standby, err := localpostgres.StartStandby(ctx, localpostgres.Config{
		Dir:      filepath.Join(w.dir, "standby"),
		Settings: map[string]string{"shared_buffers": schema.LocalSharedBuffers, "synchronous_standby_names": "*"},
	}, primary)
	if err != nil {
		return err
	}
	w.closers = append(w.closers, func(ctx context.Context) { _ = standby.Stop(ctx) })
	admin, err := pgx.Connect(ctx, primary.AdminURL())
	if err != nil {
		return err
	}
	defer func() { _ = admin.Close(context.WithoutCancel(ctx)) }()
	if _, err := admin.Exec(ctx, `ALTER SYSTEM SET synchronous_standby_names = '*'`); err != nil {
		return err
	}
	if _, err := admin.Exec(ctx, `SELECT pg_reload_conf()`); err != nil {
		return err
	}
	return w.startPlain(ctx, primary)
}

func (w *world) deployed(ctx context.Context) error {
	ours := w.load(w.connections, fasthttp.StatusCreated, w.writeOurs(w.writers))
	var spent []time.Duration // processor time of a write, in each round
	got, err := compare(ctx, w.rounds,
		func(ctx context.Context) (result, error) {
			before, err := w.processorTime()
			if err != nil {
				return result{}, err
			}
			r, err := ours(ctx)
			if err != nil {
				return result{}, err
			}
			after, err := w.processorTime()
			spent = append(spent, time.Duration(float64(after-before)/(r.perSecond*w.duration.Seconds())))
			return r, err
		},
		w.load(w.connections, fasthttp.StatusCreated, w.writePlain(w.writers)))
	if err != nil {
		return err
	}
	addRate(fmt.Sprintf("deployed: POST /memories, %d connections, of an INSERT with a synchronous standby", w.connections), got[0], got[1])
	median := medianBy(spent[1:], func(d time.Duration) float64 { return float64(d) }) // without the round that warms up
	add("deployed: processor time of a write in API and projector, of 200µs", short(time.Duration(median)), "200µs", median/float64(200*time.Microsecond))
	return w.gets(ctx, "deployed, again and again", 100, 20, func(int) int { return rand.IntN(100 * 20) })
}

// processorTime is what the deployment's API and projector have used so far. Linux counts
// it in hundredths of a second.
func (w *world) processorTime() (time.Duration, error) {
	var sum time.Duration
	for _, p := range w.processes {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		if err != nil {
			return 0, err
		}
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // utime and stime are the 12th and 13th after the name
		for _, field := range fields[11:13] {
			ticks, err := strconv.Atoi(string(field))
			if err != nil {
				return 0, err
			}
			sum += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return sum, nil
}
