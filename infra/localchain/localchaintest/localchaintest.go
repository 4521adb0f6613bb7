// Package localchaintest starts local chains for tests. Each chain has a free port and a
// folder of its test, and ends with its test. All chains share one cache of the
// installed Node modules.
package localchaintest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/localchain"
)

// Start runs a chain until the test ends. Empty fields of cfg get values that suit
// tests: faults allowed, slots of 20 ms. If this machine can run no chain, the test is
// skipped, or fails if REQUIRE_CHAIN is set, as in CI.
func Start(t testing.TB, cfg localchain.Config) *localchain.Chain {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	chain, err := Run(cfg)
	if errors.Is(err, localchain.ErrUnavailable) && os.Getenv("REQUIRE_CHAIN") == "" {
		t.Skipf("needs a local chain: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := chain.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Logf("stopping the local chain: %v", err)
		}
	})
	return chain
}

// Run is Start for a TestMain: the caller names the folder and stops the chain.
func Run(cfg localchain.Config) (*localchain.Chain, error) {
	if cfg.CacheDir == "" {
		cfg.CacheDir = CacheDir()
	}
	if cfg.SlotTime == 0 {
		cfg.SlotTime = 20 * time.Millisecond
	}
	if cfg.Log == nil {
		cfg.Log = os.Stderr
	}
	cfg.Faults = true
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	return localchain.Start(ctx, cfg)
}

// CacheDir is where tests keep installed Node modules.
func CacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "memory-ledger", "localchain")
}
