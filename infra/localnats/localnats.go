// Package localnats runs a NATS server with JetStream inside this process, with its
// streams in a folder.
//
// The server fsyncs every message before it acknowledges the message (SyncAlways),
// unless the caller says otherwise: JetStream's own default acknowledges up to two
// minutes before the disk has the message. The listener is on the loopback only. It asks
// for a password, because other users of the machine also reach the loopback.
//
// Layout of the folder:
//
//	lock        held while a server runs here; JetStream itself has no lock, and
//	            two servers on one store destroy it
//	jetstream/  the server's store
//
// A killed process leaves nothing else. The next Start recovers the store, which
// contains every acknowledged message.
package localnats

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/infra/datadir"
)

const (
	// User may do everything on a local server.
	User = "ledger"
	// MaxPayload is the largest message: one command's events.
	MaxPayload = 2 << 20

	lockName  = "lock"
	storeName = "jetstream" // the server's choice
)

// Config says how to run a server. Only Dir is required.
type Config struct {
	// Dir holds everything that the server keeps. It is created (mode 0700) if
	// need be.
	Dir string
	// Port on 127.0.0.1; 0 takes a free one.
	Port int
	// Password of User; default a random one.
	Password string
	// NoSync acknowledges before the fsync. A power cut then loses acknowledged messages;
	// a killed process loses none. It is for tests that cut no power.
	NoSync bool
	// GroupSync leaves the fsync to Server.GroupSync: call its Sync before you
	// acknowledge a write.
	GroupSync bool
	// ReadStream is the stream that holders of ReadURL may read, and AdminStream one of which
	// they may read single messages. Empty means no stream.
	ReadStream, AdminStream string
	// Logger gets the server's lines: warnings and errors as such, the rest at
	// debug level. Default: slog.Default.
	Logger *slog.Logger
}

// Server is a running server. Its methods are safe for concurrent use.
type Server struct {
	ns           *server.Server
	lock         *datadir.FileLock
	password     string
	readPassword string
	reader       atomic.Pointer[server.User] // nil: no login as Reader
	failed       atomic.Pointer[string]      // the first critical write error
	port         int

	mu     sync.Mutex
	conns  []*nats.Conn          // made by Connect, closed by Stop
	groups map[string]*GroupSync // by stream; closed by Stop

	stop    sync.Once
	stopErr error
}

// Start runs a server on cfg.Dir and returns when the server takes connections and has
// its streams. The error matches datadir.ErrLocked if another instance uses the folder.
// After an error nothing runs. Cancelling ctx later does not stop the server.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second) // recovery included
	defer cancel()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("local NATS: %w", err)
	}
	lock, err := datadir.Lock(filepath.Join(cfg.Dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("local NATS: %w", err)
	}
	s := &Server{lock: lock, groups: map[string]*GroupSync{}}
	if err := s.start(ctx, cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("local NATS: %w", err), lock.Release())
	}
	return s, nil
}

// With runs a server while use works with a connection to it, and logs nothing.
func With(ctx context.Context, cfg Config, use func(*nats.Conn) error) (err error) {
	cfg.Logger = slog.New(slog.DiscardHandler)
	s, err := Start(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop(context.WithoutCancel(ctx))) }()
	conn, err := s.Connect()
	if err != nil {
		return err
	}
	return use(conn)
}

func (s *Server) start(ctx context.Context, cfg Config) error {
	s.password, s.readPassword = cmp.Or(cfg.Password, rand.Text()), rand.Text()
	var err error
	if s.ns, err = server.NewServer(options(cfg, guard{s})); err != nil {
		return err
	}
	log := &logger{log: cfg.Logger.With("server", "nats"), fatal: make(chan string, 1), failed: &s.failed}
	s.ns.SetLoggerV2(log, false, false, false)
	s.ns.Start()
	err = awaitReady(ctx, s.ns, log)
	if err == nil && cfg.ReadStream != "" {
		// Only now: a server that starts with several accounts enables JetStream for none of
		// them by itself.
		var reader *server.User
		reader, err = reading(s.ns, cfg.ReadStream, cfg.AdminStream)
		s.reader.Store(reader)
	}
	if err != nil {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
		return err
	}
	s.port = s.ns.Addr().(*net.TCPAddr).Port
	return nil
}

func options(cfg Config, guard server.Authentication) *server.Options {
	return &server.Options{
		ServerName:                 "ledger-local",
		Host:                       "127.0.0.1",
		Port:                       cmp.Or(cfg.Port, server.RANDOM_PORT),
		CustomClientAuthentication: guard,
		MaxPayload:                 MaxPayload,
		JetStream:                  true,
		StoreDir:                   cfg.Dir,
		SyncAlways:                 !cfg.NoSync && !cfg.GroupSync,
		DisableJetStreamBanner:     true,
		NoSigs:                     true, // the program handles signals
	}
}

// guard admits clients that know a password.
type guard struct{ *Server }

func (g guard) Check(c server.ClientAuthentication) bool {
	given := c.GetOpts()
	knows := func(password string) bool {
		return subtle.ConstantTimeCompare([]byte(given.Password), []byte(password)) == 1
	}
	reader := g.reader.Load()
	switch {
	case given.Username == User && knows(g.password):
	case reader != nil && given.Username == Reader && knows(g.readPassword):
		c.RegisterUser(reader)
	default:
		return false
	}
	return true
}

// awaitReady polls, because the server offers no signal. It gives up at once when the
// server reports that it cannot start.
func awaitReady(ctx context.Context, ns *server.Server, log *logger) error {
	for {
		ready := ns.ReadyForConnections(10 * time.Millisecond)
		select {
		case why := <-log.fatal:
			return errors.New(why)
		default:
		}
		switch {
		case ready && ns.JetStreamEnabled():
			return nil
		case ready:
			return errors.New("JetStream did not start")
		case ctx.Err() != nil:
			return fmt.Errorf("not ready: %w", ctx.Err())
		}
	}
}

// URL of the listener, with the credential. A restart has the same URL only if Config names
// port and password.
func (s *Server) URL() string {
	return s.urlOf(url.UserPassword(User, s.password))
}

func (s *Server) urlOf(user *url.Userinfo) string {
	u := url.URL{Scheme: "nats", User: user, Host: fmt.Sprintf("127.0.0.1:%d", s.port)}
	return u.String()
}

func (s *Server) Port() int { return s.port }

// Failed returns an error once a write to a stream's files failed. The server then stores
// nothing in that stream until the next start, even if the disk has room again.
func (s *Server) Failed() error {
	if text := s.failed.Load(); text != nil {
		return fmt.Errorf("nothing is stored until a restart, once the disk is well: %s", *text)
	}
	return nil
}

// Connect makes a connection within the process, without a socket. Stop closes the
// connection if it is still open.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	opts = append([]nats.Option{nats.InProcessServer(s.ns), nats.UserInfo(User, s.password)}, opts...)
	conn, err := nats.Connect("", opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to local NATS: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, conn)
	return conn, nil
}

// Stop closes the connections that Connect made, stops the server, and waits until its store
// is closed. It waits for five seconds, or until ctx is done. After an error the server may
// still be writing: the folder stays locked until the process ends. A second Stop waits for
// the first.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Do(func() { s.stopErr = s.shutdown(ctx) })
	return s.stopErr
}

func (s *Server) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	s.mu.Lock()
	for _, conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	closed := make(chan struct{})
	go func() {
		s.ns.Shutdown()
		s.ns.WaitForShutdown()
		s.closeGroups()
		close(closed)
	}()
	select {
	case <-closed:
		return s.lock.Release()
	case <-ctx.Done():
		return fmt.Errorf("stop local NATS: %w", ctx.Err())
	}
}

func (s *Server) closeGroups() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		g.close()
	}
}

// logger turns the server's lines into slog records.
type logger struct {
	log    *slog.Logger
	fatal  chan string // why the server cannot start; holds the first reason
	failed *atomic.Pointer[string]
}

func (l *logger) write(level slog.Level, format string, args []any) {
	l.log.Log(context.Background(), level, fmt.Sprintf(format, args...))
}

func (l *logger) Noticef(format string, args ...any) { l.write(slog.LevelDebug, format, args) }
func (l *logger) Debugf(format string, args ...any)  { l.write(slog.LevelDebug, format, args) }
func (l *logger) Tracef(format string, args ...any)  { l.write(slog.LevelDebug, format, args) }
func (l *logger) Warnf(format string, args ...any)   { l.write(slog.LevelWarn, format, args) }

// Errorf also notes the error of a stream that stores nothing any more: the server tells it
// nowhere else.
func (l *logger) Errorf(format string, args ...any) {
	l.write(slog.LevelError, format, args)
	if strings.HasPrefix(format, "JetStream stream ") && strings.Contains(format, "critical write error") {
		text := fmt.Sprintf(format, args...)
		l.failed.CompareAndSwap(nil, &text)
	}
}

func (l *logger) Fatalf(format string, args ...any) {
	l.write(slog.LevelError, format, args)
	select {
	case l.fatal <- fmt.Sprintf(format, args...):
	default:
	}
}

// Reader is the user who may read Config.ReadStream and Config.AdminStream, and do nothing
// else.
const Reader = "auditor"

// readSubjects returns the requests that a reader may send. They are the auditor's
// requests in infra/nats/accounts.conf. The value says whether the answer is one message
// or several.
func readSubjects(stream, admin string) map[string]server.ServiceRespType {
	subjects := map[string]server.ServiceRespType{
		"$JS.API.DIRECT.GET." + stream:        server.Streamed,
		"$JS.API.DIRECT.GET." + stream + ".>": server.Streamed,
		"$JS.API.STREAM.INFO." + stream:       server.Singleton,
		"$JS.API.STREAM.MSG.GET." + stream:    server.Singleton,
	}
	if admin != "" {
		subjects["$JS.API.STREAM.INFO."+admin] = server.Singleton
		subjects["$JS.API.STREAM.MSG.GET."+admin] = server.Singleton
	}
	return subjects
}

// reading makes the readers' account and its user. Readers have a separate account
// because a client chooses the reply subject of its request: in the streams' account, the
// reply to a read could be an append. The top of infra/nats/accounts.conf explains more.
func reading(ns *server.Server, stream, admin string) (*server.User, error) {
	account, _ := ns.LookupOrRegisterAccount("AUDITOR")
	streams := ns.GlobalAccount()
	// Every account answers $JS.API.> itself, with "not enabled". Map the reader's
	// requests to the other name under which the real subjects are imported.
	if err := account.AddMapping("$JS.API.>", "LEDGER.API.>"); err != nil {
		return nil, fmt.Errorf("map the reader's requests: %w", err)
	}
	user := &server.User{Username: Reader, Account: account, Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{},
		// The account has one user, so any inbox will do; the nats command uses
		// the default one.
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>", "_INBOX_" + Reader + ".>"}},
	}}
	for subject, answers := range readSubjects(stream, admin) {
		imported := "LEDGER.API." + subject[len("$JS.API."):]
		if err := streams.AddServiceExportWithResponse(subject, answers, []*server.Account{account}); err != nil {
			return nil, fmt.Errorf("export %s: %w", subject, err)
		}
		if err := account.AddServiceImport(streams, imported, subject); err != nil {
			return nil, fmt.Errorf("import %s: %w", subject, err)
		}
		user.Permissions.Publish.Allow = append(user.Permissions.Publish.Allow, imported)
	}
	return user, nil
}

// ReadURL is URL with the credential of a user who may read Config.ReadStream and
// do nothing else. It is empty if Config.ReadStream is empty.
func (s *Server) ReadURL() string {
	if s.reader.Load() == nil {
		return ""
	}
	return s.urlOf(url.UserPassword(Reader, s.readPassword))
}
