package deployed_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// users are the roles of infra/nats, each with a password of its own.
var users = []string{"admin", "core", "extension", "projector", "anchorer", "auditor", "sys", "cluster"}

// deployment is what compose.yaml starts, as processes: three nodes of the log
// with accounts, and services that have nothing but a role's credentials.
type deployment struct {
	t        *testing.T
	ledger   string // the built programs
	server   string
	database string
	secrets  string // the folder that infra/deploy/secrets makes
	nodes    []*process
	ports    []string // where clients reach each node
	stores   []string // each node's folder
}

// process is one of them. It dies with the test.
type process struct {
	t    *testing.T
	cmd  func() *exec.Cmd
	log  *lines
	proc *child.Process
}

func (p *process) start() {
	p.t.Helper()
	cmd := p.cmd()
	cmd.Stdout, cmd.Stderr = p.log, p.log
	var err error
	if p.proc, err = child.Start(cmd, syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
}

// kill ends it as a power cut does.
func (p *process) kill() {
	_ = p.proc.Kill() // it may have ended by itself
	<-p.proc.Done()
}

func newProcess(t *testing.T, cmd func() *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, log: &lines{}}
	p.start()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() && os.Getenv("STACK_LOG") != "" {
			t.Logf("%v:\n%s", p.cmd().Args, p.log)
		}
	})
	return p
}

func build(t *testing.T, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", pkg, err, out)
	}
	return path
}

// deploy starts the nodes and provisions them.
func deploy(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{
		t: t, database: pgtest.Database(t),
		ledger: build(t, "github.com/memory-ledger/ledger/services/cmd/ledger"),
		server: build(t, "github.com/nats-io/nats-server/v2"),
	}
	// Certificates as a deployment gets them; this machine's names are in them.
	d.secrets = filepath.Join(t.TempDir(), "secrets")
	if out, err := exec.Command("../../../infra/deploy/secrets", d.secrets).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	makeRoles(t, d.database, d.secrets)
	var routes []string
	for range 3 {
		routes = append(routes, freeAddr(t))
		d.ports = append(d.ports, freeAddr(t))
	}
	for i := range 3 {
		d.nodes = append(d.nodes, d.node(i, routes))
	}
	out, err := d.command([]string{"provision"}, d.as("admin"), "NATS_REPLICAS=3").CombinedOutput()
	if err != nil {
		t.Fatalf("provision: %v: %s\n%s", err, out, d.nodes[0].log)
	}
	return d
}

// node runs node.conf of infra/nats, whose ports a file around it changes.
func (d *deployment) node(i int, routes []string) *process {
	d.t.Helper()
	dir := d.t.TempDir()
	conf, err := filepath.Abs("../../../infra/nats")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, name := range []string{"node.conf", "server.conf", "accounts.conf", "cluster.conf"} {
		text, err := os.ReadFile(filepath.Join(conf, name))
		if err != nil {
			d.t.Fatal(err)
		}
		_, clientPort, _ := net.SplitHostPort(d.ports[i])
		_, routePort, _ := net.SplitHostPort(routes[i])
		changed := strings.NewReplacer("port: 4222", "port: "+clientPort, "port: 6222", "host: 127.0.0.1, port: "+routePort).Replace(string(text))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(changed), 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
	d.stores = append(d.stores, filepath.Join(dir, "store"))
	environ := []string{
		fmt.Sprintf("NATS_SERVER_NAME=nats-%d", i+1), "NATS_STORE_DIR=" + d.stores[i],
		"NATS_TLS_CERTIFICATE=" + filepath.Join(d.secrets, "nats_certificate"),
		"NATS_TLS_KEY=" + filepath.Join(d.secrets, "nats_key"), "NATS_TLS_CA=" + filepath.Join(d.secrets, "ca_certificate"),
	}
	for _, user := range users {
		environ = append(environ, "NATS_"+strings.ToUpper(user)+"_PASSWORD="+passwordOf(user))
	}
	for n, route := range routes {
		environ = append(environ, fmt.Sprintf("NATS_ROUTE_%d=nats://cluster:%s@%s", n+1, passwordOf("cluster"), route))
	}
	return newProcess(d.t, func() *exec.Cmd {
		cmd := exec.Command(d.server, "-c", filepath.Join(dir, "node.conf"), "-a", "127.0.0.1")
		cmd.Env = environ
		return cmd
	})
}

func passwordOf(user string) string { return "p-" + user + "-77aa" }

// roles are the server's, whose tests make them one after the other.
var roles sync.Mutex

// makeRoles runs roles.sql, as an administrator does before the services first start.
func makeRoles(t *testing.T, database, secrets string) {
	t.Helper()
	roles.Lock()
	defer roles.Unlock()
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("psql is missing: `infra/install postgres` installs it")
	}
	at, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.User("postgres")
	if out, err := exec.Command(psql, "-X", "-q", "-v", "secrets="+secrets, "-f", "../../../infra/deploy/roles.sql", at.String()).CombinedOutput(); err != nil {
		t.Fatalf("roles.sql: %v: %s", err, out)
	}
}

// databaseOf is DATABASE_URL of a service, which has a role of its own. Tools work as
// the projector.
func (d *deployment) databaseOf(command string) string {
	role, ok := map[string]string{"core-api": "core", "extension-api": "extension", "anchorer": "anchorer"}[command]
	if !ok {
		role = "projector"
	}
	at, err := url.Parse(d.database)
	if err != nil {
		d.t.Fatal(err)
	}
	at.User = url.User("ledger_" + role)
	return "DATABASE_URL=" + at.String()
}

// as is NATS_URL of a role: all three nodes.
func (d *deployment) as(user string) string {
	var urls []string
	for _, addr := range d.ports {
		urls = append(urls, fmt.Sprintf("tls://%s:%s@%s", user, passwordOf(user), addr))
	}
	return "NATS_URL=" + strings.Join(urls, ",")
}

func (d *deployment) command(args []string, environ ...string) *exec.Cmd {
	cmd := exec.Command(d.ledger, args...)
	cmd.Env = append([]string{
		d.databaseOf(args[0]), "DATABASE_CONNS=6", "NATS_REPLICAS=3", "NATS_CA=" + filepath.Join(d.secrets, "ca_certificate"), "LEDGER_DATA_DIR=" + d.t.TempDir(),
		"MASTER_KEY=" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef")),
		"JWT_SECRET=0123456789abcdef0123456789abcdef",
	}, environ...)
	return cmd
}

// api runs a replica and returns its client once it is ready.
func (d *deployment) api(command, addrVariable string, environ ...string) (*process, *stacktest.Client) {
	d.t.Helper()
	addr := freeAddr(d.t)
	p := newProcess(d.t, func() *exec.Cmd {
		return d.command([]string{command}, append([]string{
			d.as(strings.TrimSuffix(command, "-api")), addrVariable + "=" + addr, "CORE_URL=http://ledger.test", "EXTENSION_URL=http://ledger.test",
		}, environ...)...)
	})
	waitFor(d.t, "http://"+addr+"/readyz", p.proc.Done(), p.log)
	api := contracttest.Core
	if command == "extension-api" {
		api = contracttest.Extension
	}
	return p, stacktest.NewClient(d.t, api, "http://"+addr)
}

func (d *deployment) projector(environ ...string) *process {
	return newProcess(d.t, func() *exec.Cmd {
		return d.command([]string{"projector"}, append([]string{d.as("projector"), "PROJECTOR_CONSUMER=projector"}, environ...)...)
	})
}

// settled waits until all nodes have what they need of each other.
func (d *deployment) settled(c *stacktest.Client, session stacktest.Header) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for n := 0; ctx.Err() == nil; n++ {
		a, err := c.Try("POST", "/memories", map[string]any{"content": fmt.Sprintf("settled %d", n)}, session)
		if err == nil && a.Status == 201 {
			return
		}
	}
	d.t.Fatal("nothing can be written")
}
