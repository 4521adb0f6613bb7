package grant

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/memory-ledger/ledger/services/memory"
)

// TestLanes: two readers of a case work at a time, and the third waits for one of them.
// Another case's readers don't wait. Nothing is kept for cases without readers.
func TestLanes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l caseLimiter
		enter := func(ctx context.Context, id string) (func(), bool) {
			leave, waited, err := l.enter(ctx, id, 2)
			if err != nil {
				t.Fatal(err)
			}
			return leave, waited
		}
		first, _ := enter(t.Context(), "a")
		second, _ := enter(t.Context(), "a")
		other, waited := enter(t.Context(), "b")
		if waited {
			t.Error("another case's reader waited")
		}
		in := false
		go func() {
			leave, waited := enter(t.Context(), "a")
			if in = true; !waited {
				t.Error("the third did not wait")
			}
			leave()
		}()
		impatient, hangUp := context.WithCancel(t.Context())
		var refused error
		go func() { _, _, refused = l.enter(impatient, "a", 2) }()
		synctest.Wait()
		if in {
			t.Error("three at a time")
		}
		hangUp()
		synctest.Wait()
		if !errors.Is(refused, memory.ErrBusy) || !errors.Is(refused, context.Canceled) {
			t.Errorf("who hung up got %v", refused)
		}
		first()
		synctest.Wait()
		if !in {
			t.Error("nobody came after the first")
		}
		second()
		other()
		if len(l.byCase) != 0 {
			t.Errorf("%d cases are kept", len(l.byCase))
		}
	})
}

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
