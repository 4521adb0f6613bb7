package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/valyala/fasthttp"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/test/cluster"
)

// deployed runs a suite on the services of compose.yaml, as processes on this machine:
// three nodes of the log with TLS and roles, PostgreSQL, a core API and a projector. It
// compares them with the plain service on a PostgreSQL with one synchronous standby, and
// with raw publishes to the same nodes. Only connections to the log are encrypted. The
// plain service gains from its unencrypted database connection.
func deployed(run func(context.Context, *deployment) error) func(context.Context, *world) error {
	return func(ctx context.Context, of *world) error {
		d, err := deploy(ctx, of.options)
		defer d.close()
		if err != nil {
			return err
		}
		defer func() {
			of.report.rows, of.report.notes = append(of.report.rows, d.report.rows...), append(of.report.notes, d.report.notes...)
		}()
		return run(ctx, d)
	}
}

func deployments(ctx context.Context, d *deployment) error {
	for _, step := range []func(context.Context) error{d.writes, d.reads, d.bytesInLog, d.silence} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// deployment is a world whose ledger is deployed.
type deployment struct {
	*world
	cluster   *cluster.Cluster
	api       *cluster.Process // the core API
	projector *cluster.Process
	database  *localpostgres.Server // of the ledger
	standby   *localpostgres.Server // of the plain service's database
	admin     jetstream.JetStream
	publisher jetstream.JetStream
}

func deploy(ctx context.Context, o options) (*deployment, error) {
	dir, err := os.MkdirTemp("", "ledger-bench-")
	if err != nil {
		return nil, err
	}
	d := &deployment{world: &world{options: o, dir: dir}}
	if err := os.Chmod(dir, 0o711); err != nil {
		return d, err
	}
	if err := d.startPlain(ctx); err != nil {
		return d, err
	}
	if d.database, err = localpostgres.Start(ctx, localpostgres.Config{Dir: filepath.Join(dir, "database"), SharedBuffers: "256MB"}); err != nil {
		return d, err
	}
	root, err := os.Getwd()
	if err != nil {
		return d, err
	}
	ledger, err := filepath.Abs(o.ledger)
	if err != nil {
		return d, err
	}
	server := filepath.Join(dir, "nats-server")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", server, "github.com/nats-io/nats-server/v2").CombinedOutput(); err != nil {
		return d, fmt.Errorf("build nats-server: %w: %s", err, out)
	}
	if d.cluster, err = cluster.Start(cluster.Config{Root: root, Dir: dir, Ledger: ledger, Server: server, Database: d.database.URL()}); err != nil {
		return d, err
	}
	if d.projector, err = d.cluster.Projector("LOG_LEVEL=warn"); err != nil {
		return d, err
	}
	if d.api, d.core, err = d.cluster.API("core-api", "LOG_LEVEL=warn"); err != nil {
		return d, err
	}
	if d.admin, err = d.connect(); err != nil {
		return d, err
	}
	if d.publisher, err = d.connect(); err != nil {
		return d, err
	}
	if _, err := d.admin.CreateStream(ctx, jetstream.StreamConfig{Name: "RAW", Subjects: []string{"raw.>"}, Replicas: 3}); err != nil {
		return d, err
	}
	return d, d.signInAll(ctx)
}

// startPlain starts the plain service, whose COMMITs wait for a standby.
func (d *deployment) startPlain(ctx context.Context) error {
	var err error
	settings := map[string]string{"synchronous_standby_names": "*"}
	if d.world.database, err = localpostgres.Start(ctx, localpostgres.Config{
		Dir: filepath.Join(d.dir, "plain"), SharedBuffers: schema.LocalSharedBuffers,
	}); err != nil {
		return err
	}
	if d.standby, err = localpostgres.StartStandby(ctx, localpostgres.Config{
		Dir: filepath.Join(d.dir, "standby"), SharedBuffers: schema.LocalSharedBuffers, Settings: settings,
	}, d.world.database); err != nil {
		return err
	}
	if d.pool, err = pgxpool.New(ctx, d.world.database.AdminURL()); err != nil {
		return err
	}
	if _, err := d.pool.Exec(ctx, `ALTER SYSTEM SET synchronous_standby_names = '*'`); err != nil {
		return err
	}
	if _, err := d.pool.Exec(ctx, `SELECT pg_reload_conf()`); err != nil {
		return err
	}
	d.pool.Close()
	return d.servePlain(ctx)
}

func (d *deployment) connect() (jetstream.JetStream, error) {
	nc, err := nats.Connect(d.cluster.URL("admin"), nats.RootCAs(filepath.Join(d.cluster.Secrets, "ca_certificate")),
		nats.CustomInboxPrefix("_INBOX_admin"), nats.MaxReconnects(-1))
	if err != nil {
		return nil, err
	}
	return jetstream.New(nc)
}

func (d *deployment) close() {
	if d == nil {
		return
	}
	for _, js := range []jetstream.JetStream{d.admin, d.publisher} {
		if js != nil {
			js.Conn().Close()
		}
	}
	if d.cluster != nil {
		d.cluster.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, server := range []*localpostgres.Server{d.database, d.standby} {
		if server != nil {
			_ = server.Stop(ctx)
		}
	}
	d.world.close()
}

func (d *deployment) writes(ctx context.Context) error {
	ours := func(n int, r *fasthttp.Request) { d.writeOurs(n, r) }
	plain := func(n int, r *fasthttp.Request) {
		postMemory(d.plain, "/memories", n, r)
		r.Header.Set("X-Owner", d.wallets[n%len(d.wallets)])
	}
	for _, connections := range []int{1, 64, 256} {
		load := func(fill request) func(context.Context) (result, error) {
			return func(ctx context.Context) (result, error) {
				return drive(ctx, connections, d.duration, fasthttp.StatusCreated, fill)
			}
		}
		got, err := compare(ctx, d.rounds, contender{"ours", load(ours)}, contender{"plain", load(plain)},
			contender{"raw", func(ctx context.Context) (result, error) { return d.rawPublishes(ctx, connections) }})
		if err != nil {
			return err
		}
		of := throughput
		if connections == 1 {
			of = middle
		}
		name := fmt.Sprintf("deployed: POST /memories, %d connections, ", connections)
		d.report.add(name+"beside an INSERT with a synchronous standby", rate(got[0]), rate(got[1]), ratio(got[0], got[1], of))
		d.report.add(name+"beside raw publishes to the same nodes", rate(got[0]), rate(got[2]), ratio(got[0], got[2], of))
	}
	return nil
}

// rawPublishes appends messages as large as a memory's, and waits for the acknowledgement
// of each.
func (d *deployment) rawPublishes(ctx context.Context, connections int) (result, error) {
	payload := make([]byte, 900)
	latencies, errs := make([][]time.Duration, connections), make([]error, connections)
	end := time.Now().Add(d.duration)
	var group sync.WaitGroup
	start := time.Now()
	for i := range connections {
		group.Go(func() {
			for n := 0; time.Now().Before(end) && errs[i] == nil; n++ {
				begin := time.Now()
				_, errs[i] = d.publisher.Publish(ctx, fmt.Sprintf("raw.%d.%d", i, n%100), payload)
				latencies[i] = append(latencies[i], time.Since(begin))
			}
		})
	}
	group.Wait()
	elapsed := time.Since(start)
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return result{float64(len(all)) / elapsed.Seconds(), all[len(all)/2], all[len(all)*99/100]}, errors.Join(errs...)
}

// bytesInLog measures how many bytes the log takes for a memory of 200 bytes.
func (d *deployment) bytesInLog(ctx context.Context) error {
	before, err := d.sizeOfLog(ctx)
	if err != nil {
		return err
	}
	write := func(n int, r *fasthttp.Request) {
		d.writeOurs(n, r)
		r.SetBodyString(`{"content":"` + (sentence(n) + strings.Repeat(" and so on", 20))[:200] + `"}`)
	}
	if _, err := drive(ctx, 64, 5*time.Second, fasthttp.StatusCreated, write); err != nil {
		return err
	}
	after, err := d.sizeOfLog(ctx)
	if err != nil {
		return err
	}
	d.report.note(fmt.Sprintf("deployed: %d bytes in the log for a memory of 200 bytes", (after.Bytes-before.Bytes)/(after.Msgs-before.Msgs)))
	return nil
}

func (d *deployment) sizeOfLog(ctx context.Context) (jetstream.StreamState, error) {
	stream, err := d.admin.Stream(ctx, eventlog.StreamName)
	if err != nil {
		return jetstream.StreamState{}, err
	}
	return stream.CachedInfo().State, nil
}

// silence kills the node that leads the log while clients write and read, once in each
// round, and reports the longest times between two successful answers.
func (d *deployment) silence(ctx context.Context) error {
	answer, err := d.post(ctx, "/memories", map[string]any{"content": "is read while a leader dies"}, d.tokens[0])
	if err != nil {
		return err
	}
	read := d.core + "/memories/" + answer["id"].(string)
	waited := make(map[string][]time.Duration)
	for range d.rounds {
		loads := map[string]*gaps{
			"writers": {status: fasthttp.StatusCreated, fill: func(n int, r *fasthttp.Request) {
				d.writeOurs(n, r)
				r.Header.Set("Idempotency-Key", uuid.NewString())
			}},
			"readers": {status: fasthttp.StatusOK, fill: func(_ int, r *fasthttp.Request) {
				r.SetRequestURI(read)
				r.Header.Set("Authorization", "Bearer "+d.tokens[0])
			}},
		}
		if err := d.loseLeader(ctx, loads); err != nil {
			return err
		}
		for name, load := range loads {
			if other := load.other.Load(); other > 0 {
				return fmt.Errorf("a leader was killed: %d answers to %s were neither a success nor 503", other, name)
			}
			waited[name] = append(waited[name], load.longest)
		}
	}
	for _, name := range []string{"writers", "readers"} {
		all := waited[name]
		slices.Sort(all)
		d.report.note(fmt.Sprintf("deployed: the leader killed under load, %d times: %s waited %v to %v at the longest, %v in the median",
			len(all), name, short(all[0]), short(all[len(all)-1]), short(all[len(all)/2])))
	}
	return nil
}

// loseLeader runs the loads, kills the log's leader meanwhile, and starts the node again.
// It returns when all nodes have the whole log.
func (d *deployment) loseLeader(ctx context.Context, loads map[string]*gaps) error {
	stream, err := d.admin.Stream(ctx, eventlog.StreamName)
	if err != nil {
		return err
	}
	var leader int
	if _, err := fmt.Sscanf(stream.CachedInfo().Cluster.Leader, "nats-%d", &leader); err != nil {
		return err
	}
	var group sync.WaitGroup
	end := time.Now().Add(15 * time.Second)
	for _, load := range loads {
		for range 8 {
			group.Go(func() { load.run(end) })
		}
	}
	select {
	case <-time.After(3 * time.Second):
	case <-ctx.Done():
	}
	node := d.cluster.Nodes[leader-1]
	node.Kill()
	group.Wait()
	for _, load := range loads {
		load.longest = max(load.longest, end.Sub(load.last))
	}
	if err := node.Start(); err != nil {
		return err
	}
	log, err := eventlog.Open(ctx, d.admin.Conn())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return d.cluster.AwaitReplicas(ctx, log)
}

// gaps is a load that goes on after any answer.
type gaps struct {
	status  int
	fill    request
	other   atomic.Int64 // answers that are neither a success nor 503
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

func (g *gaps) run(end time.Time) {
	client := &fasthttp.Client{MaxConnsPerHost: 1, ReadTimeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	req, res := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	for n := 0; time.Now().Before(end); n++ {
		req.Reset()
		g.fill(n, req)
		switch err := client.Do(req, res); {
		case err == nil && res.StatusCode() == g.status:
			now := time.Now()
			g.mu.Lock()
			if !g.last.IsZero() {
				g.longest = max(g.longest, now.Sub(g.last))
			}
			g.last = now
			g.mu.Unlock()
		case err == nil && res.StatusCode() == fasthttp.StatusServiceUnavailable:
			time.Sleep(10 * time.Millisecond) // sooner than Retry-After says, to see the end of the refusals
		default:
			g.other.Add(1)
		}
	}
}

// reads compares GETs by id, of memories that are read again and again.
func (d *deployment) reads(ctx context.Context) error {
	return d.readAgain(ctx, "deployed: ")
}
