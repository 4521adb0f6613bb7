package memory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/memory-ledger/ledger/events"
)

// TestOwnersTakeTurns: an owner with a hundred requests delays another owner by at most one
// piece of work.
func TestOwnersTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newScheduler(1)
		busy, light := events.Owner("busy"), events.Owner("light")
		release, err := turns.Take(t.Context(), busy, false)
		must(t, err)
		order := make(chan events.Owner) // so that a piece of work takes until it is received
		ask := func(owner events.Owner) {
			go func() {
				release, err := turns.Take(t.Context(), owner, false)
				if err != nil {
					t.Error(err)
					return
				}
				order <- owner
				release()
			}()
			synctest.Wait()
		}
		for range 20 {
			ask(busy)
		}
		ask(light)
		ask(light)
		release()
		var got []events.Owner
		for range 22 {
			synctest.Wait()
			got = append(got, <-order)
		}
		if got[1] != light || got[3] != light {
			t.Errorf("the order was %v", got[:6])
		}
	})
}

func TestALineIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newScheduler(1)
		release, err := turns.Take(t.Context(), "a", false)
		must(t, err)
		ctx, leave := context.WithCancel(t.Context())
		results := make(chan error, waitingOfOwner+1)
		for range waitingOfOwner {
			go func() {
				_, err := turns.Take(ctx, "a", false)
				results <- err
			}()
		}
		synctest.Wait()
		if _, err := turns.Take(t.Context(), "a", false); !errors.Is(err, ErrBusy) {
			t.Errorf("one too many: %v", err)
		}
		// Work that has begun is admitted even now.
		go func() {
			_, err := turns.Take(ctx, "a", true)
			results <- err
		}()
		synctest.Wait()
		if n := turns.pieces.Callers(); n != waitingOfOwner+1 {
			t.Errorf("%d wait", n)
		}
		leave()
		for range waitingOfOwner + 1 {
			if err := <-results; !errors.Is(err, ErrBusy) || !errors.Is(err, context.Canceled) {
				t.Errorf("who left: %v", err)
			}
		}
		release()
		// There is one slot, so one ranking is under way.
		end, err := turns.Rank(t.Context(), "a")
		must(t, err)
		go func() {
			end, err := turns.Rank(t.Context(), "a")
			results <- err
			end()
		}()
		if synctest.Wait(); len(results) > 0 {
			t.Error("two rankings of an owner are under way")
		}
		end()
		must(t, <-results)
		synctest.Wait()
		if !turns.slots.TryAcquire(1) || turns.pieces.Callers()+turns.rankings.Callers()+len(turns.pieces.lines)+len(turns.rankings.lines) != 0 {
			t.Errorf("left behind: %+v", turns)
		}
	})
}
