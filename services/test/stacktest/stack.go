// Package stacktest runs the whole product inside a test: a real log, a real database, a
// projector, and any number of replicas of either API, each with its own connections.
package stacktest

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/contracttest"
)

// Options say what to run. The zero value is one replica of each API.
type Options struct {
	Core, Extension int // replicas; 0 means 1
	// NATSURL and DatabaseURL name servers of the test. Empty: Start makes fresh ones.
	NATSURL, DatabaseURL string
	// Configure changes the configuration before anything starts.
	Configure func(*config.Config)
}

// Stack is a running product.
type Stack struct {
	Config    config.Config
	Core      []*Client // one for each replica
	Extension []*Client
	NATSURL   string

	t       testing.TB
	stop    context.CancelFunc
	running sync.WaitGroup
}

// Start runs a stack until the test ends. The test's program needs
// pgtest.Main.
func Start(t testing.TB, o Options) *Stack {
	t.Helper()
	s := &Stack{t: t, Config: settings(t), NATSURL: o.NATSURL}
	if s.NATSURL == "" {
		s.NATSURL = natstest.Start(t).URL()
	}
	if o.DatabaseURL == "" {
		o.DatabaseURL = pgtest.Filled(t, migrated)
	}
	s.Config.NATSURL, s.Config.DatabaseURL = s.NATSURL, o.DatabaseURL
	if o.Configure != nil {
		o.Configure(&s.Config)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	t.Cleanup(s.Stop)
	s.work(ctx, "projector", assembly.RunProjector)
	if s.Config.SolanaRPCURL != "" && s.Config.AuthorityKeypair != "" {
		s.Anchor(ctx)
	}
	core, extension := listen(t, o.Core), listen(t, o.Extension)
	s.Config.CoreURL, s.Config.ExtensionURL = urlOf(core[0]), urlOf(extension[0])
	for _, listener := range core {
		s.Core = append(s.Core, s.serve(ctx, contracttest.Core, listener, (*assembly.APIServer).ServeCore))
	}
	for _, listener := range extension {
		s.Extension = append(s.Extension, s.serve(ctx, contracttest.Extension, listener, (*assembly.APIServer).ServeExtension))
	}
	return s
}

func migrated(url string) error {
	pool, err := schema.OpenPool(context.Background(), url, schema.Live, 1)
	if err == nil {
		err = schema.Migrate(context.Background(), pool)
		pool.Close()
	}
	return err
}

// listen returns a listener for each replica.
func listen(t testing.TB, replicas int) []net.Listener {
	t.Helper()
	listeners := make([]net.Listener, max(1, replicas))
	for i := range listeners {
		var err error
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	return listeners
}

func urlOf(listener net.Listener) string { return "http://" + listener.Addr().String() }

// Stop ends everything that the stack started; it is safe to call twice.
func (s *Stack) Stop() {
	s.stop()
	s.running.Wait()
}

func settings(t testing.TB) config.Config {
	t.Helper()
	cfg, err := config.Load([]string{
		"MASTER_KEY=" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)),
		"JWT_SECRET=0123456789abcdef0123456789abcdef",
	})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func (s *Stack) base(service string) *assembly.Base {
	s.t.Helper()
	level := slog.LevelError + 1
	if os.Getenv("STACK_LOG") != "" {
		level = slog.LevelDebug
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("service", service)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	base, err := assembly.NewBase(ctx, s.Config, logger, assembly.Dial(s.Config))
	if err != nil {
		s.t.Fatal(err)
	}
	return base
}

// Anchor runs an anchorer until ctx ends.
func (s *Stack) Anchor(ctx context.Context) { s.work(ctx, "anchorer", assembly.RunAnchorer) }

func (s *Stack) work(ctx context.Context, service string, run func(context.Context, *assembly.Base) error) {
	s.t.Helper()
	base := s.base(service)
	s.running.Go(func() {
		defer base.Close()
		if err := run(ctx, base); err != nil {
			s.t.Errorf("%s: %v", service, err)
		}
	})
}

// serve starts a replica: its own connections, its own caches.
func (s *Stack) serve(ctx context.Context, api contracttest.API, listener net.Listener, serve func(*assembly.APIServer, context.Context, net.Listener) error) *Client {
	s.t.Helper()
	base := s.base(string(api))
	if own := urlOf(listener); api == contracttest.Core {
		base.Config.CoreURL = own
	} else {
		base.Config.ExtensionURL = own
	}
	deciding, err := assembly.NewAPIServer(ctx, base, assembly.Neighbors{})
	if err != nil {
		s.t.Fatal(err)
	}
	watching, stop := context.WithCancel(context.Background())
	s.running.Go(func() { _ = deciding.Fence.Run(watching) })
	s.running.Go(func() {
		defer base.Close()
		defer stop()
		if err := serve(deciding, ctx, listener); err != nil {
			s.t.Errorf("%s: %v", api, err)
		}
	})
	return NewClient(s.t, api, urlOf(listener))
}

// Beside returns the base of another replica of the stack, and a running fence. Both end
// with the test.
func (s *Stack) Beside(t *testing.T) (*assembly.Base, *fence.Fence) {
	t.Helper()
	base := s.base("beside")
	f := fence.New(base.Pool, base.Log, fence.Options{Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		base.Close()
	})
	return base, f
}

// Lacking skips a test that needs something which is missing. In CI it fails the test,
// because a skipped test would go unnoticed there.
func Lacking(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Ledger is the package of the ledger command.
const Ledger = "github.com/memory-ledger/ledger/services/cmd/ledger"

// programs holds what Program has built.
var programs struct {
	sync.Mutex
	dir string
}

// Main is pgtest.Main for tests that use Program.
func Main(m *testing.M, after ...func()) {
	var err error
	if programs.dir, err = os.MkdirTemp("", "ledger-programs-"); err != nil {
		panic(err)
	}
	pgtest.Main(m, append(after, func() { _ = os.RemoveAll(programs.dir) })...)
}

// Program builds a command, once for all tests of this process, and returns its path. It
// compiles without cgo, as make test does: the race detector's run needs cgo, and would
// compile everything once more.
func Program(t testing.TB, pkg string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	path := filepath.Join(programs.dir, filepath.Base(pkg))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v: %s", pkg, err, out)
	}
	return path
}
