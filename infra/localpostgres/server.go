package localpostgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/datadir"
)

// Server is a running server. Its methods are safe for concurrent use, except
// that Stop or Kill must be called once and last.
type Server struct {
	proc    *child.Process
	lock    *datadir.FileLock
	sockets string
	port    string // it only names the socket
}

// Start runs the server of cfg.Dir and returns when the database takes connections. It
// creates the folder, the cluster, the role, and the database if they are missing. If the
// machine has no server program, it fetches one into the user's cache.
//
// It returns an error that matches ErrNotFound if there is no server program and none
// could be fetched, and datadir.ErrLocked if another instance uses the folder. After an
// error nothing runs. Cancelling ctx later does not stop the server.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.normalise(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("local PostgreSQL: %w", err)
	}
	lock, err := datadir.Lock(filepath.Join(cfg.Dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("local PostgreSQL: %w", err)
	}
	s, err := startLocked(ctx, cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("local PostgreSQL: %w", err), lock.Release())
	}
	s.lock = lock
	return s, nil
}

func startLocked(ctx context.Context, cfg Config) (*Server, error) {
	p, err := findPlace(cfg.Dir)
	if err != nil {
		return nil, err
	}
	inst, err := programs(ctx, cfg, p)
	if err != nil {
		return nil, err
	}
	// Crash recovery included. Only a machine that is overloaded needs so long.
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cluster := p.cluster(inst)
	if err := stopLeftover(ctx, p, inst, cluster); err != nil {
		return nil, err
	}
	if _, err := os.Stat(cluster); errors.Is(err, os.ErrNotExist) {
		if err := createCluster(ctx, p, inst, cluster, cfg.NoSync); err != nil {
			return nil, err
		}
	}
	s := &Server{port: cmp.Or(cfg.Settings["port"], "5432"), sockets: p.sockets}
	return s, s.bringUp(ctx, cfg, p, inst, cluster)
}

// stopLeftover stops a server that a killed run left. It knows the server by its socket: the
// socket's folder is private to this cluster, whose lock the caller holds. On Linux such a
// server is already stopping.
func stopLeftover(ctx context.Context, p place, inst installation, cluster string) error {
	sockets, err := fs.Glob(os.DirFS(p.sockets), ".s.PGSQL.*")
	for _, name := range sockets {
		conn, dialErr := net.DialTimeout("unix", filepath.Join(p.sockets, name), time.Second)
		if dialErr != nil {
			continue // nothing runs, or this is the socket's lock file
		}
		_ = conn.Close()
		// An error shows at the start: two servers do not run in one cluster.
		_ = run(ctx, p.who, p.home, inst.program("pg_ctl"), "stop", "--pgdata="+cluster, "--mode=immediate", "--wait")
	}
	return err
}

// bringUp starts the process and prepares the database. It tries again, because an earlier
// server may need a moment to end. After an error no process is left.
func (s *Server) bringUp(ctx context.Context, cfg Config, p place, inst installation, cluster string) error {
	for try := 1; ; try++ {
		err := s.launch(ctx, cfg, p, inst, cluster)
		if !errors.Is(err, errEndedEarly) || try == 10 {
			return err
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

var errEndedEarly = errors.New("the server ended while starting")

func (s *Server) launch(ctx context.Context, cfg Config, p place, inst installation, cluster string) error {
	cmd := exec.Command(inst.program("postgres"), "-D", cluster)
	settings := cfg.settings(s.sockets)
	for _, k := range slices.Sorted(maps.Keys(settings)) {
		cmd.Args = append(cmd.Args, "-c", k+"="+settings[k])
	}
	cmd.Dir = p.home
	cmd.Env = environment()
	cmd.SysProcAttr = p.who.attr()
	// This is how many of the server's last lines an error quotes: after the cause it says up
	// to four lines about its end, and one for each try of ready to connect meanwhile.
	lines := child.NewLines(16, logLines(cfg.Logger))
	cmd.Stdout, cmd.Stderr = lines, lines
	var err error
	if s.proc, err = child.Start(cmd, syscall.SIGQUIT); err != nil {
		return err
	}
	err = s.ready(ctx)
	if err == nil {
		return nil
	}
	select {
	case <-s.proc.Done():
		return fmt.Errorf("%w: %s", errEndedEarly, lines.Last())
	default:
		return errors.Join(err, s.proc.Stop(ctx, syscall.SIGINT, syscall.SIGQUIT))
	}
}

// ready waits for the first connection, then makes the role and the database.
func (s *Server) ready(ctx context.Context) error {
	// This is how often a start looks whether the server is ready, or whether an earlier one
	// has ended.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := pgx.Connect(ctx, s.AdminURL())
		if err == nil {
			return errors.Join(s.provision(ctx, conn), conn.Close(ctx))
		}
		select {
		case <-tick.C:
		case <-s.proc.Done():
			return errEndedEarly
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (%w)", ctx.Err(), err)
		}
	}
}

// provision runs at every start. After a crash between its steps, the next start does
// the missing ones.
func (s *Server) provision(ctx context.Context, conn *pgx.Conn) error {
	var hasRole, hasDatabase bool
	const look = `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1), EXISTS (SELECT FROM pg_database WHERE datname = $1)`
	if err := conn.QueryRow(ctx, look, DatabaseName).Scan(&hasRole, &hasDatabase); err != nil {
		return fmt.Errorf("look for the database: %w", err)
	}
	var todo []string
	if !hasRole {
		todo = append(todo, "CREATE ROLE ledger LOGIN")
	}
	if !hasDatabase {
		todo = append(todo, "CREATE DATABASE ledger OWNER ledger TEMPLATE template0")
	}
	for _, statement := range todo {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("make the role and the database: %w", err)
		}
	}
	return nil
}

// URL of the database ledger, for pgx and psql alike. The socket's folder is the access
// control. The URL stays the same across restarts on one folder.
func (s *Server) URL() string { return s.DatabaseURL(DatabaseName) }

func (s *Server) DatabaseURL(name string) string { return s.socketURL(DatabaseName, name) }

// AdminURL is for the cluster's superuser, over the socket.
func (s *Server) AdminURL() string { return s.socketURL(superuser, superuser) }

func (s *Server) socketURL(user, database string) string {
	query := url.Values{"host": {s.sockets}, "port": {s.port}}
	// libpq and pgx do not read a plus as a space. Encode wrote a real plus as %2B, so
	// every plus that is left was a space.
	raw := strings.ReplaceAll(query.Encode(), "+", "%20")
	// No host before the path: the socket's folder, in the query, is the host.
	u := url.URL{Scheme: "postgresql", User: url.User(user), Path: "/" + database, RawQuery: raw}
	return u.String()
}

func (s *Server) PID() int { return s.proc.PID() }

// Done is closed when the server has ended, for whatever reason.
func (s *Server) Done() <-chan struct{} { return s.proc.Done() }

// Stop ends sessions, writes a checkpoint, and stops the server (a fast shutdown). It
// waits for five seconds, or until ctx is done. Then it stops
// the server without a checkpoint and returns child.ErrForced. That loses nothing, but
// the next start must recover. No process is left.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := s.proc.Stop(ctx, syscall.SIGINT, syscall.SIGQUIT)
	return s.gone(err)
}

// Kill ends the server at once, as a crash would, for tests of faults.
func (s *Server) Kill() error { return s.gone(s.proc.Kill()) }

func (s *Server) gone(err error) error {
	if strings.HasPrefix(s.sockets, "/tmp/") {
		_ = os.Remove(s.sockets) // empty; the next start makes it again
	}
	return errors.Join(err, s.lock.Release())
}

func logLines(log *slog.Logger) func(string) {
	return func(line string) {
		level := slog.LevelDebug
		if strings.Contains(line, "PANIC:") {
			level = slog.LevelError
		}
		log.Log(context.Background(), level, line, "server", "postgres")
	}
}

// StartStandby copies a running server into cfg.Dir, an empty folder, and starts the
// copy: a hot standby that follows the server over its Unix socket. The server waits for
// the standby if the server's own settings have synchronous_standby_names.
func StartStandby(ctx context.Context, cfg Config, of *Server) (*Server, error) {
	if err := cfg.normalise(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("local PostgreSQL: %w", err)
	}
	p, err := findPlace(cfg.Dir)
	if err != nil {
		return nil, err
	}
	inst, err := find(candidates(), p.who)
	if err != nil {
		return nil, err
	}
	cluster := p.cluster(inst)
	if err := errors.Join(os.Mkdir(cluster, 0o700), p.who.give(cluster)); err != nil {
		return nil, err
	}
	if err := run(ctx, p.who, p.home, inst.program("pg_basebackup"), "--write-recovery-conf", "--checkpoint=fast",
		"--pgdata="+cluster, "--host="+of.sockets, "--port="+of.port, "--username="+superuser); err != nil {
		return nil, err
	}
	return Start(ctx, cfg)
}

// DatabaseName is the database that Start creates, and the role that owns it.
const DatabaseName = "ledger"

// superuser owns the cluster. Only the Unix socket lets it in.
const superuser = "postgres"

// Config says how to run a server. Only Dir is required.
type Config struct {
	// Dir holds everything that the server keeps, unless we are root; see the package. It
	// is created if need be.
	Dir string
	// NoSync turns fsync off. A power cut may then destroy the cluster, while a
	// killed server still loses nothing. It is for tests that cut no power.
	NoSync bool
	// Settings are those of postgresql.conf, and win over ours.
	Settings map[string]string
	// OnFetch gets lines for a person where programs are fetched; default none.
	OnFetch func(line string)
	// Logger gets the server's own lines at debug level. Default: slog.Default.
	Logger *slog.Logger
}

// normalise fills in defaults, and makes the path absolute.
func (c *Config) normalise() (err error) {
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Dir, err = filepath.Abs(c.Dir)
	return err
}

// settings returns the settings for the command line. So the cluster's own files stay
// as initdb wrote them, and keep nothing from an earlier run.
func (c *Config) settings(socketDir string) map[string]string {
	sync := "on"
	if c.NoSync {
		sync = "off"
	}
	s := map[string]string{
		"unix_socket_directories": socketDir,
		"unix_socket_permissions": "0700",
		"listen_addresses":        "",
		"shared_buffers":          "64MB",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"logging_collector":       "off",
		"log_destination":         "stderr",
		// A failed statement may contain user content, which must not be logged.
		"log_min_error_statement": "panic",
		"log_error_verbosity":     "terse",
		"password_encryption":     "scram-sha-256",
		"fsync":                   sync,
		"full_page_writes":        sync,
	}
	maps.Copy(s, c.Settings)
	return s
}
