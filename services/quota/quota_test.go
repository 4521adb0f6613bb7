package quota_test

import (
	"errors"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/quota"
)

// TestQuotas: each owner can use a minute's quota of each kind at once, and then what the
// passing time gives back.
func TestQuotas(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	q := quota.New(quota.Limits{quota.Writes: 60, quota.Keys: 2}, func() time.Time { return now })
	a, b := events.OwnerFromBytes([32]byte{1}), events.OwnerFromBytes([32]byte{2})
	take := func(kind quota.Kind, owner events.Owner, n int, wait time.Duration) {
		t.Helper()
		err := q.Take(kind, owner, n)
		if exceeded, ok := errors.AsType[*quota.ExceededError](err); ok != (wait > 0) || wait > 0 && exceeded.Wait != wait {
			t.Errorf("%d of kind %d: %v, want a wait of %v", n, kind, err, wait)
		}
	}
	take(quota.Writes, a, 60, 0)
	take(quota.Writes, a, 1, time.Second)
	take(quota.Writes, a, 10, 10*time.Second)
	take(quota.Writes, b, 1, 0)
	take(quota.Keys, a, 2, 0)
	take(quota.Keys, a, 1, 30*time.Second)
	take(quota.Searches, a, 1_000_000, 0)
	now = now.Add(5 * time.Second)
	take(quota.Writes, a, 6, time.Second) // refused calls took nothing
	take(quota.Writes, a, 5, 0)
	take(quota.Writes, a, 256, time.Minute) // needs a full minute's quota
	now = now.Add(time.Minute)
	take(quota.Writes, a, 256, 0)
	take(quota.Writes, a, 1, 197*time.Second) // 196 are owed
	now = now.Add(197 * time.Second)
	take(quota.Writes, a, 1, 0)
	take(quota.Writes, a, 1, time.Second)
	q.GiveBack(quota.Writes, a, 2)
	take(quota.Writes, a, 2, 0)
	take(quota.Writes, a, 1, time.Second)
	q.GiveBack(quota.Writes, a, 61)
	take(quota.Writes, a, 60, 0) // no more than a minute's quota
	take(quota.Writes, a, 1, time.Second)
	var none *quota.Quotas
	if err := none.Take(quota.Writes, a, 1); err != nil {
		t.Error(err)
	}
	if got := (&quota.ExceededError{Of: "API keys made a minute", Limit: 2, Wait: 1100 * time.Millisecond}).Error(); got != "more than 2 API keys made a minute; try again in 2 s" {
		t.Error(got)
	}
}
