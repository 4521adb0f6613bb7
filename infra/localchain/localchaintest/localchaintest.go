// Package localchaintest starts local chains for tests. Each chain has a free port and a
// folder of its test, and ends with its test. All chains share one cache.
package localchaintest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/localchain"
)

// Start runs a chain until the test ends. Empty fields of cfg get values that suit
// tests: faults allowed, slots of 20 ms.
func Start(t testing.TB, cfg localchain.Config) *localchain.Chain {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	chain, err := Run(cfg)
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
	if cfg.SlotTime == 0 {
		cfg.SlotTime = 20 * time.Millisecond
	}
	if cfg.Log == nil {
		cfg.Log = os.Stderr
	}
	cfg.Faults = true
	return localchain.Start(context.Background(), cfg)
}
