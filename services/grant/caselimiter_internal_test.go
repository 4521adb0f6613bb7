package grant

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/memory-ledger/ledger/services/memory"
)

func TestLanesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l caseLimiter
		ctx, hangUp := context.WithCancel(t.Context())
		leave, _, err := l.enter(ctx, "a", 1)
		if err != nil {
			t.Fatal(err)
		}
		for range 1024 {
			go func() { _, _, _ = l.enter(ctx, "a", 1) }()
		}
		synctest.Wait()
		if _, _, err := l.enter(ctx, "a", 1); !errors.Is(err, memory.ErrBusy) {
			t.Errorf("one more than may wait: %v", err)
		}
		hangUp()
		synctest.Wait()
		leave()
		if len(l.byCase) != 0 {
			t.Errorf("%d cases are kept", len(l.byCase))
		}
	})
}
