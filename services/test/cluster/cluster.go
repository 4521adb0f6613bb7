// Package cluster runs the services of compose.yaml as processes on this machine: three
// nodes of the log with accounts and TLS, and services that have only a role's
// credentials. The deployed tests and the benchmarks use it.
package cluster

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/memory-ledger/ledger/infra/child"
)

// Secret is every cluster's master key and the secret of its JWTs.
const Secret = "0123456789abcdef0123456789abcdef"

// users are the roles of infra/nats, each with its own password.
var users = []string{"admin", "core", "extension", "projector", "anchorer", "auditor", "sys", "cluster"}

// Config says where to find the parts of a cluster.
type Config struct {
	Root     string // the repository
	Dir      string // an empty folder for the cluster's files
	Ledger   string // the ledger program
	Server   string // nats-server
	Database string // URL of an empty database whose superuser is "postgres"
	// Services reach the database at this host and port. Empty: as Database says.
	DatabaseAddr string
	// Machines run the nodes of the log, one each. nil: all run on this machine.
	Machines []Machine
	// Output returns a writer for a process's output; nil discards the output.
	Output func() io.Writer
}

// Machine is where a process runs.
type Machine struct {
	IP    string
	Enter func(*exec.Cmd) // changes a command so that it runs there
}

// Cluster is three provisioned nodes of the log, with the settings that services need to
// reach them.
type Cluster struct {
	Config
	Secrets string     // the folder that infra/deploy/secrets made
	Nodes   []*Process // of the log
	Stores  []string   // each node's folder
	addrs   []string   // where clients reach each node
	all     []*Process
}

// Start makes the secrets and the database's roles, starts the nodes and provisions them.
// [Cluster.Close] ends the started processes; call it after an error too.
func Start(cfg Config) (*Cluster, error) {
	if cfg.Output == nil {
		cfg.Output = func() io.Writer { return io.Discard }
	}
	c := &Cluster{Config: cfg, Secrets: filepath.Join(cfg.Dir, "secrets")}
	// Make the certificates as a deployment does. They contain this machine's names.
	secrets := exec.Command(filepath.Join(cfg.Root, "infra/deploy/secrets"), c.Secrets)
	if cfg.Machines != nil {
		secrets.Env = append(os.Environ(), fmt.Sprintf("NATS_HOSTS=%s %s %s", cfg.Machines[0].IP, cfg.Machines[1].IP, cfg.Machines[2].IP))
	}
	if out, err := secrets.CombinedOutput(); err != nil {
		return c, fmt.Errorf("%w: %s", err, out)
	}
	if err := c.makeRoles(); err != nil {
		return c, err
	}
	var routes []string
	for i := range 3 {
		if cfg.Machines != nil {
			c.addrs = append(c.addrs, net.JoinHostPort(cfg.Machines[i].IP, "4222"))
			routes = append(routes, net.JoinHostPort(cfg.Machines[i].IP, "6222"))
			continue
		}
		for _, list := range []*[]string{&routes, &c.addrs} {
			addr, err := FreeAddr()
			if err != nil {
				return c, err
			}
			*list = append(*list, addr)
		}
	}
	for i := range 3 {
		node, err := c.node(i, routes)
		if err != nil {
			return c, err
		}
		c.Nodes = append(c.Nodes, node)
	}
	if out, err := c.Command([]string{"provision"}, c.As("admin"), "NATS_REPLICAS=3").CombinedOutput(); err != nil {
		return c, fmt.Errorf("provision: %w: %s", err, out)
	}
	return c, nil
}

// Close kills every process that was started.
func (c *Cluster) Close() {
	for _, p := range c.all {
		p.Kill()
	}
}

// makeRoles runs roles.sql, as an administrator does before the services first start.
// Clusters that share a database server must make its roles one after the other.
func (c *Cluster) makeRoles() error {
	psql, err := exec.LookPath("psql")
	if err != nil {
		return ErrNoPsql
	}
	at, err := url.Parse(c.Database)
	if err != nil {
		return err
	}
	at.User = url.User("postgres")
	sql := filepath.Join(c.Root, "infra/deploy/roles.sql")
	if out, err := exec.Command(psql, "-X", "-q", "-v", "secrets="+c.Secrets, "-f", sql, at.String()).CombinedOutput(); err != nil {
		return fmt.Errorf("roles.sql: %w: %s", err, out)
	}
	return nil
}

// ErrNoPsql means that psql, which makes the database's roles, is missing.
var ErrNoPsql = errors.New("psql is missing: make deps installs it")

// node runs a node with node.conf of infra/nats, on its own ports.
func (c *Cluster) node(i int, routes []string) (*Process, error) {
	dir := filepath.Join(c.Dir, fmt.Sprintf("nats-%d", i+1))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	host, clientPort, _ := net.SplitHostPort(c.addrs[i])
	_, routePort, _ := net.SplitHostPort(routes[i])
	ports := strings.NewReplacer("port: 4222", "port: "+clientPort, "port: 6222", "host: "+host+", port: "+routePort)
	for _, name := range []string{"node.conf", "server.conf", "accounts.conf", "cluster.conf"} {
		text, err := os.ReadFile(filepath.Join(c.Root, "infra/nats", name))
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(ports.Replace(string(text))), 0o600); err != nil {
			return nil, err
		}
	}
	store := filepath.Join(dir, "store")
	c.Stores = append(c.Stores, store)
	environ := []string{
		fmt.Sprintf("NATS_SERVER_NAME=nats-%d", i+1), "NATS_STORE_DIR=" + store,
		"NATS_TLS_CERTIFICATE=" + filepath.Join(c.Secrets, "nats_certificate"),
		"NATS_TLS_KEY=" + filepath.Join(c.Secrets, "nats_key"), "NATS_TLS_CA=" + filepath.Join(c.Secrets, "ca_certificate"),
	}
	for _, user := range users {
		environ = append(environ, "NATS_"+strings.ToUpper(user)+"_PASSWORD="+passwordOf(user))
	}
	for n, route := range routes {
		environ = append(environ, fmt.Sprintf("NATS_ROUTE_%d=nats://cluster:%s@%s", n+1, passwordOf("cluster"), route))
	}
	return c.Run(func() *exec.Cmd {
		cmd := exec.Command(c.Server, "-c", filepath.Join(dir, "node.conf"), "-a", host)
		cmd.Env = environ
		if c.Machines != nil {
			c.Machines[i].Enter(cmd)
		}
		return cmd
	})
}

func passwordOf(user string) string { return "p-" + user + "-77aa" }

// URL returns the URLs at which a role reaches the log, one for each of the three nodes.
func (c *Cluster) URL(user string) string {
	var urls []string
	for _, addr := range c.addrs {
		urls = append(urls, fmt.Sprintf("tls://%s:%s@%s", user, passwordOf(user), addr))
	}
	return strings.Join(urls, ",")
}

// As returns the NATS_URL setting of a role.
func (c *Cluster) As(user string) string { return "NATS_URL=" + c.URL(user) }

// DatabaseURL returns the URL of the database for a command, with its service's own role.
// Tools use the projector's role.
func (c *Cluster) DatabaseURL(command string) string {
	role, ok := map[string]string{"core-api": "core", "extension-api": "extension", "anchorer": "anchorer"}[command]
	if !ok {
		role = "projector"
	}
	at, _ := url.Parse(c.Database) // makeRoles parsed it
	at.User = url.User("ledger_" + role)
	if c.DatabaseAddr != "" {
		at.Host, at.RawQuery = c.DatabaseAddr, "sslmode=disable"
	}
	return at.String()
}

// Command returns a command of the ledger program, with its role in the database.
func (c *Cluster) Command(args []string, environ ...string) *exec.Cmd {
	cmd := exec.Command(c.Ledger, args...)
	cmd.Env = append([]string{
		"DATABASE_URL=" + c.DatabaseURL(args[0]), "NATS_REPLICAS=3", "NATS_CA=" + filepath.Join(c.Secrets, "ca_certificate"),
		"LEDGER_DATA_DIR=" + filepath.Join(c.Dir, "none"),
		"MASTER_KEY=" + base64.StdEncoding.EncodeToString([]byte(Secret)),
		"JWT_SECRET=" + Secret,
	}, environ...)
	return cmd
}

// Projector runs a projector that follows the log through its provisioned consumer.
func (c *Cluster) Projector(environ ...string) (*Process, error) {
	return c.Run(func() *exec.Cmd {
		return c.Command([]string{"projector"}, append([]string{c.As("projector")}, environ...)...)
	})
}

// API runs a replica of "core-api" or "extension-api", and returns its URL once it is
// ready.
func (c *Cluster) API(command string, environ ...string) (*Process, string, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, "", err
	}
	role := strings.TrimSuffix(command, "-api")
	p, err := c.Run(func() *exec.Cmd {
		return c.Command([]string{command}, append([]string{
			c.As(role), strings.ToUpper(role) + "_ADDR=" + addr, "CORE_URL=http://ledger.test", "EXTENSION_URL=http://ledger.test",
		}, environ...)...)
	})
	if err != nil {
		return nil, "", err
	}
	return p, "http://" + addr, Await("http://"+addr+"/readyz", p.Done())
}

// Await waits until the URL answers 200. It returns an error if the process ends first,
// or after a minute.
func Await(url string, ended <-chan struct{}) error {
	deadline := time.After(60 * time.Second)
	for {
		answer, err := http.Get(url)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ended:
			return fmt.Errorf("%s: the process ended", url)
		case <-deadline:
			return fmt.Errorf("%s: not there in time", url)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// FreeAddr returns an address of this machine on which nothing listens.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Process is a process of a cluster. It dies with this process.
type Process struct {
	Output io.Writer
	cmd    func() *exec.Cmd
	proc   *child.Process
}

// Run starts a process that [Cluster.Close] kills.
func (c *Cluster) Run(cmd func() *exec.Cmd) (*Process, error) {
	p := &Process{Output: c.Output(), cmd: cmd}
	if err := p.Start(); err != nil {
		return nil, err
	}
	c.all = append(c.all, p)
	return p, nil
}

// Start starts the process again after [Process.Kill].
func (p *Process) Start() error {
	cmd := p.cmd()
	cmd.Stdout, cmd.Stderr = p.Output, p.Output
	proc, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	p.proc = proc
	return nil
}

// Kill ends the process at once, like a power cut.
func (p *Process) Kill() {
	_ = p.proc.Kill() // it may have ended by itself
	<-p.proc.Done()
}

// PID returns the process's id, while it runs.
func (p *Process) PID() int { return p.proc.PID() }

// Done returns a channel that closes when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.proc.Done() }
