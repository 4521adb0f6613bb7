package cuts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/test/cluster"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// world is a deployment, each part on a machine of its own: three nodes of the log, two
// machines with both APIs, a projector, an anchorer and their standbys. The database and the
// clients are at the hub.
type world struct {
	t *testing.T
	*cluster.Cluster
	machines map[string]*machine
	nodes    []*machine
	conns    []*nats.Conn // to each node, from the hub
	apis     []replica
	workers  map[string]*cluster.Process // by machine
	database *localpostgres.Server
	settings localpostgres.Config
	groups   []string // of the replicas of the log, and of the keystore
	election *watcher
}

// replica is a machine with both APIs.
type replica struct{ core, extension *stacktest.Client }

func build(t *testing.T, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", pkg, err, out)
	}
	return path
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, workers: map[string]*cluster.Process{}}
	w.machines = network(t, "nats-1", "nats-2", "nats-3", "api-1", "api-2", "projector-1", "projector-2", "anchorer-1", "anchorer-2")
	w.startDatabase()
	cfg := cluster.Config{
		Dir: t.TempDir(), Database: w.database.AdminURL(), DatabaseAddr: hub + ":5432", Output: w.output(),
		Ledger: build(t, "github.com/memory-ledger/ledger/services/cmd/ledger"),
		Server: build(t, "github.com/nats-io/nats-server/v2"),
	}
	for i := range 3 {
		m := w.machines[fmt.Sprintf("nats-%d", i+1)]
		w.nodes = append(w.nodes, m)
		cfg.Machines = append(cfg.Machines, cluster.Machine{IP: m.ip, Enter: m.enter})
	}
	var err error
	if cfg.Root, err = filepath.Abs("../../.."); err != nil {
		t.Fatal(err)
	}
	w.Cluster, err = cluster.Start(cfg)
	t.Cleanup(w.Close)
	must(t, err)
	for _, name := range []string{"projector-1", "projector-2"} {
		w.workers[name] = w.start(name, "projector", w.As("projector"))
	}
	for _, name := range []string{"api-1", "api-2"} {
		w.apis = append(w.apis, replica{
			core:      w.api(name, "core-api", "CORE_ADDR", "3001", contracttest.Core),
			extension: w.api(name, "extension-api", "EXTENSION_ADDR", "3002", contracttest.Extension),
		})
	}
	authority := stacktest.KeypairFile(t, stacktest.NewKey(t))
	for _, name := range []string{"anchorer-1", "anchorer-2"} { // the projector makes the tables, so it is first
		w.workers[name] = w.start(name, "anchorer", w.As("anchorer"),
			"AUTHORITY_KEYPAIR="+authority, "COMMITMENT_PROGRAM_ID="+program.LocalID.String(), "SOLANA_RPC_URL=http://"+hub+":8899")
	}
	for i, url := range strings.Split(w.URL("auditor"), ",") {
		conn, err := nats.Connect(url, nats.RootCAs(filepath.Join(w.Secrets, "ca_certificate")), nats.CustomInboxPrefix("_INBOX_auditor"),
			nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.ReconnectJitter(0, 0), nats.IgnoreDiscoveredServers(),
			nats.PingInterval(time.Second), nats.FlusherTimeout(time.Second))
		if err != nil {
			t.Fatalf("node %d: %v", i+1, err)
		}
		t.Cleanup(conn.Close)
		w.conns = append(w.conns, conn)
	}
	w.groups = w.groupsOf(eventlog.StreamName, keystore.Stream)
	w.election = watch(w)
	return w
}

func (m *machine) enter(cmd *exec.Cmd) { within(m.ns, cmd) }

// output keeps what each process says, and shows it if the test fails.
func (w *world) output() func() io.Writer {
	folder := os.Getenv("STACK_LOG")
	n := 0
	return func() io.Writer {
		if n++; folder == "" {
			return io.Discard
		}
		file, err := os.Create(filepath.Join(folder, fmt.Sprintf("%02d.log", n)))
		must(w.t, err)
		w.t.Cleanup(func() { _ = file.Close() })
		return file
	}
}

// start runs a service on a machine.
func (w *world) start(machine, command string, environ ...string) *cluster.Process {
	w.t.Helper()
	p, err := w.Run(func() *exec.Cmd {
		cmd := w.Command([]string{command}, environ...)
		w.machines[machine].enter(cmd)
		return cmd
	})
	must(w.t, err)
	return p
}

func (w *world) api(machine, command, variable, port string, api contracttest.API) *stacktest.Client {
	w.t.Helper()
	addr := w.machines[machine].ip + ":" + port
	p := w.start(machine, command, w.As(strings.TrimSuffix(command, "-api")), variable+"="+addr, "CORE_URL=http://ledger.test", "EXTENSION_URL=http://ledger.test")
	must(w.t, cluster.Await("http://"+addr+"/readyz", p.Done()))
	if clocks && machine == "api-2" {
		for _, pid := range processes(w.t, p.PID()) {
			setAhead(w.t, pid, ahead)
		}
	}
	return stacktest.NewClient(w.t, api, "http://"+addr)
}

// startDatabase starts PostgreSQL, or starts it again. It trusts all machines.
func (w *world) startDatabase() {
	w.t.Helper()
	if w.settings.Dir == "" {
		rules := filepath.Join(os.TempDir(), fmt.Sprintf("cuts-%d.hba", os.Getpid()))
		must(w.t, os.WriteFile(rules, []byte("local all all trust\nhost all all 10.77.0.0/24 trust\n"), 0o644))
		w.t.Cleanup(func() { _ = os.Remove(rules) })
		w.settings = localpostgres.Config{Dir: pgtest.Folder(w.t), NoSync: true, Settings: map[string]string{"listen_addresses": hub, "hba_file": rules}}
	}
	w.database = pgtest.Start(w.t, w.settings)
}

// working returns the machine of the projector or anchorer that holds the locks.
func (w *world) working(service string) (name string) {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.database.AdminURL())
	must(w.t, err)
	defer conn.Close(context.Background())
	var ip string
	err = conn.QueryRow(w.t.Context(), `SELECT host(a.client_addr) FROM pg_stat_activity a JOIN pg_locks l USING (pid)
		WHERE a.application_name = 'memory-ledger ' || $1 AND l.locktype = 'advisory' AND l.granted LIMIT 1`, service).Scan(&ip)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		w.t.Fatal(err)
	}
	for _, m := range w.machines {
		if m.ip == ip {
			name = m.name
		}
	}
	return name
}

// halfOpen drops what clients and the database send each other.
func (w *world) halfOpen() {
	run(w.t, nil, "iptables -A INPUT -p tcp --dport 5432 -j DROP; iptables -A OUTPUT -p tcp --sport 5432 -j DROP")
}

// groupsOf returns the names of the replicas' groups of some streams, which the auditor may
// not ask for.
func (w *world) groupsOf(streams ...string) (groups []string) {
	conn, err := nats.Connect(w.URL("admin"), nats.RootCAs(filepath.Join(w.Secrets, "ca_certificate")))
	must(w.t, err)
	defer conn.Close()
	js, err := jetstream.New(conn)
	must(w.t, err)
	for _, name := range streams {
		stream, err := js.Stream(w.t.Context(), name)
		must(w.t, err)
		groups = append(groups, stream.CachedInfo().Cluster.RaftGroup)
	}
	return groups
}

// state asks a node about the stream.
func (w *world) state(ctx context.Context, node int) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	answer, err := w.conns[node].RequestWithContext(ctx, "LEDGER.API.STREAM.INFO."+eventlog.StreamName, nil)
	if err != nil {
		return nil, err
	}
	info := new(jetstream.StreamInfo)
	return info, json.Unmarshal(answer.Data, info)
}

// reads reports whether a node finds the log's first message, which is there when the load
// begins.
func (w *world) reads(node int) bool {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	answer, err := w.conns[node].RequestWithContext(ctx, "LEDGER.API.STREAM.MSG.GET."+eventlog.StreamName, []byte(`{"seq":1}`))
	return err == nil && strings.Contains(string(answer.Data), `"message"`)
}

// works reports whether the log works at a node: a majority of the replicas that the node
// reaches follows a leader, which knows it and finds the first message. Stream information
// says whom the leader has heard from, but not whether those have voted for another. The
// keystore's replicas elect a leader of their own, and a service that reads a key again
// needs that.
func (w *world) works(node int) bool {
	return w.follow(node, w.groups[0]) && w.follow(node, w.groups[1]) && w.reads(node)
}

// follow reports whether a majority of a stream's replicas follows a leader.
func (w *world) follow(node int, group string) bool {
	ctx, cancel := context.WithTimeout(w.t.Context(), 500*time.Millisecond)
	defer cancel()
	answers, err := w.conns[node].SubscribeSync(w.conns[node].NewInbox())
	if err != nil {
		return false
	}
	defer func() { _ = answers.Unsubscribe() }() // a closed connection has no subscription
	question := fmt.Appendf(nil, `{"account":"LEDGER","group":%q}`, group)
	if w.conns[node].PublishRequest("$SYS.REQ.SERVER.PING.RAFTZ", answers.Subject, question) != nil {
		return false
	}
	type following struct {
		leader string
		term   uint64
	}
	votes, leads := map[following]int{}, map[following]bool{}
	for {
		answer, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return false
		}
		var says struct {
			Data map[string]map[string]struct { // by account and group
				ID, State, Leader string
				Term              uint64
			}
		}
		if json.Unmarshal(answer.Data, &says) != nil {
			continue
		}
		is := says.Data["LEDGER"][group]
		leader := following{is.Leader, is.Term}
		votes[leader]++
		leads[leader] = leads[leader] || is.State == "LEADER" && is.ID == is.Leader
		if leads[leader] && votes[leader] >= 2 {
			return true
		}
	}
}

// leader returns the leading node once all nodes have the whole log, and the followers.
func (w *world) leader() (leader int, followers []int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for n := 0; ctx.Err() == nil; n = (n + 1) % 3 {
		info, err := w.state(ctx, n)
		if err == nil && info.Cluster != nil && len(info.Cluster.Replicas) == 2 && info.Cluster.Replicas[0].Current && info.Cluster.Replicas[1].Current {
			if _, err := fmt.Sscanf(info.Cluster.Leader, "nats-%d", &leader); err == nil {
				leader--
				return leader, []int{(leader + 1) % 3, (leader + 2) % 3}
			}
		}
		eventlog.Pause(ctx, 100*time.Millisecond)
	}
	w.t.Fatal("the nodes do not agree on a leader")
	return 0, nil
}

// watcher notes when the log works at any node. For a read, the cluster needs a leader besides
// the stream's.
type watcher struct {
	mu   sync.Mutex
	last time.Time
	gaps []gap
}

// gap is a time in which the log did not work.
type gap struct{ from, to time.Time }

// blink is how long a working log may seem not to work: three watchers look at it about every
// 50 ms, on a busy machine less often.
const blink = 300 * time.Millisecond

func watch(w *world) *watcher {
	watcher := &watcher{last: time.Now()}
	var all sync.WaitGroup
	for n := range w.conns {
		all.Go(func() {
			for w.t.Context().Err() == nil {
				if w.works(n) {
					watcher.works(time.Now())
				}
				eventlog.Pause(w.t.Context(), 50*time.Millisecond)
			}
		})
	}
	w.t.Cleanup(all.Wait)
	return watcher
}

func (w *watcher) works(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.Sub(w.last) > blink {
		w.gaps = append(w.gaps, gap{w.last, at})
	}
	if at.After(w.last) {
		w.last = at
	}
}

// take returns the gaps since the last call, also one that has not ended.
func (w *watcher) take() []gap {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); now.Sub(w.last) > blink {
		w.gaps, w.last = append(w.gaps, gap{w.last, now}), now
	}
	gaps := w.gaps
	w.gaps = nil
	return gaps
}

// down returns for how long of a time the log did not work.
func down(gaps []gap, from, to time.Time) (sum time.Duration) {
	for _, g := range gaps {
		if g.from.Before(from) {
			g.from = from
		}
		if g.to.After(to) {
			g.to = to
		}
		sum += max(0, g.to.Sub(g.from))
	}
	return sum
}
