package stacktest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/services/run/assembly"
)

// Beside returns the base of another replica of the stack, and a running fence. Both end
// with the test.
func (s *Stack) Beside(t *testing.T) (*assembly.Base, *fence.Fence) {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(context.Background())
	base, err := assembly.NewBase(ctx, s.Config, logger, assembly.Dial(s.Config))
	if err != nil {
		t.Fatal(err)
	}
	f, err := fence.New(base.Pool, base.Log, fence.Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
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
