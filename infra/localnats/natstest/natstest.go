// Package natstest gives tests a real NATS server with JetStream. Start runs it inside
// the test program. StartProcess runs it as a separate process, which a test can kill,
// freeze, and start again on the same folder and port.
//
// The process is the test program itself, started a second time. A program that imports
// this package turns into a server before any test runs, if its environment asks for
// that. So nothing has to be built. The server is exactly the version that the module
// pins, and has the race detector if the test has it.
package natstest

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/localnats"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

// Option changes how a test's server runs.
type Option func(*localnats.Config)

// Sync makes the server fsync every message before it acknowledges the message. Only
// tests of that behavior need it.
func Sync() Option { return func(c *localnats.Config) { c.NoSync = false } }

// Dir has the server use a folder that exists already.
func Dir(dir string) Option { return func(c *localnats.Config) { c.Dir = dir } }

// Start runs a server for one test, in its own folder, on a free port. The server stops
// when the test ends, if the test has not stopped it before.
func Start(t testing.TB, opts ...Option) *localnats.Server {
	t.Helper()
	s, err := localnats.Start(t.Context(), config(t, opts))
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("natstest: %v", err)
		}
	})
	return s
}

func config(t testing.TB, opts []Option) localnats.Config {
	cfg := localnats.Config{NoSync: true, Logger: slog.New(slog.DiscardHandler)}
	for _, opt := range opts {
		opt(&cfg)
	}
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	return cfg
}

// FromConfig runs a server on a configuration file until the test ends, on a free port
// and in a temporary folder, and returns its URL. The caller sets the environment
// variables that the file reads.
func FromConfig(t testing.TB, file string) string {
	t.Helper()
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opts.Host, opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", -1, t.TempDir(), true, true
	ns, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(2 * time.Minute) {
		t.Fatal("server is not ready")
	}
	return ns.ClientURL()
}

// Connect connects to a server until the test ends.
func Connect(t testing.TB, url string, options ...nats.Option) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// Log makes the log's stream, unless it is there.
func Log(t testing.TB, nc *nats.Conn) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err == nil {
		_, err = natsconf.Create(t.Context(), js, natsconf.Stream, 1)
	}
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		t.Fatal(err)
	}
}

// FilesHolding returns the files in a folder, at any depth, that contain the given bytes.
// The server may be using the folder: a file that it removes meanwhile does not count.
func FilesHolding(t testing.TB, dir string, what []byte) (files []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if bytes.Contains(data, what) {
			files = append(files, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return files
}
