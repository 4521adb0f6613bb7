package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// settledAfter: a server of a local run is not restarted if it ends more than three times
// in a row, each time less than this after its start.
const settledAfter = time.Minute

// keepUp restarts a server that ends unexpectedly, until ctx ends. ended returns a
// channel that closes when the running server has ended. restart returns once a new
// server runs. keepUp returns an error if restart fails, or if the server repeatedly ends
// soon after its start. No server runs then.
func keepUp(ctx context.Context, logger *slog.Logger, name string, ended func() <-chan struct{}, restart func(context.Context) error) error {
	for ends := 1; ; ends++ {
		begun := time.Now()
		select {
		case <-ctx.Done():
			return nil
		case <-ended():
		}
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(begun) >= settledAfter {
			ends = 1
		}
		if ends > 3 {
			return fmt.Errorf("%s ended %d times, each soon after its start", name, ends)
		}
		logger.Error(name + " ended unexpectedly, and is restarted")
		if err := restart(ctx); err != nil {
			return UnlessAsked(ctx, fmt.Errorf("start %s again: %w", name, err))
		}
		logger.Info(name + " is up again")
	}
}
