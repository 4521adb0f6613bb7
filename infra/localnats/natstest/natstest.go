// Package natstest gives tests a real NATS server with JetStream: Start inside
// the test program, StartProcess as a process of its own, which a test can
// kill, freeze and start again on the same folder and port.
//
// The process is the test program itself, started once more: importing this
// package makes it turn into a server when told so by its environment, before
// any test runs. So nothing has to be built, and what runs is the very server
// that the module pins, with the race detector where the test has it.
package natstest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/memory-ledger/ledger/infra/localnats"
)

// Option changes how a test's server runs.
type Option func(*localnats.Config)

// Sync has the server fsync every message before it acknowledges it, which a
// test needs only where that is its subject.
func Sync() Option { return func(c *localnats.Config) { c.NoSync = false } }

// Dir has the server use a folder that exists already.
func Dir(dir string) Option { return func(c *localnats.Config) { c.Dir = dir } }

// Start runs a server of the test's own, in its own folder, on a free port. It
// is stopped when the test ends, unless the test did so.
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
