package projector_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
)

// TestTablesAreRenewed: if Renew returns steps for a session's error, they empty the
// tables together with the checkpoint, and the log is projected from its first message.
func TestTablesAreRenewed(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	log.Publish(t, fixture.NewHistory(60, 4).Messages(20)...)
	var empty []projector.Step
	for _, p := range readmodel.All() {
		for _, table := range p.Tables() {
			empty = append(empty, projector.Step{SQL: `DELETE FROM ` + table})
		}
	}
	errStale := errors.New("what the tables hold is stale")
	var began, renewed atomic.Int32
	_, stop := project(t, pool, log, func(c *projector.Config) {
		c.Work = func(ctx context.Context) error {
			if began.Add(1) == 1 {
				return errStale
			}
			<-ctx.Done()
			return nil
		}
		c.Renew = func(err error) []projector.Step {
			if !errors.Is(err, errStale) {
				return nil
			}
			renewed.Add(1)
			return empty
		}
	})
	fixture.Eventually(t, 2*time.Minute, func() error {
		if began.Load() != 2 {
			return errors.New("the work has not begun again")
		}
		return nil
	})
	caughtUp(t, pool, log)
	if n := renewed.Load(); n != 1 {
		t.Errorf("renewed %d times", n)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
