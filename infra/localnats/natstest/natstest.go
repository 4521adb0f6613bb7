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
	"context"
	"log/slog"
	"testing"

	"github.com/memory-ledger/ledger/infra/localnats"
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
