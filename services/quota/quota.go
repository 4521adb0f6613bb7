// Package quota bounds what one owner does in a minute on one replica, through all the
// owner's sessions and keys together.
package quota

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/memory-ledger/ledger/events"
)

type Kind int

const (
	Writes   Kind = iota // memories
	Mints                // agent cases and memory drops
	Keys                 // API keys created
	Searches             // searches, including recalls by agents
	kinds
)

var names = [kinds]string{"memories written a minute", "links handed out a minute", "API keys made a minute", "searches a minute"}

// Limits holds, for each kind, how many an owner has per minute; 0: no limit.
type Limits [kinds]int

// Quotas counts what owners do. An owner who did nothing for a minute may use a minute's
// quota at once.
type Quotas struct {
	limits Limits
	now    func() time.Time

	mu     sync.Mutex
	owners map[of]*rate.Limiter
}

type of struct {
	kind  Kind
	owner events.Owner
}

func New(limits Limits, now func() time.Time) *Quotas {
	return &Quotas{limits: limits, now: now, owners: map[of]*rate.Limiter{}}
}

// ErrExceeded: the owner did too much. The answer is 429. Every such error is an
// ExceededError.
var ErrExceeded = errors.New("quota exceeded")

// ExceededError says which quota was exceeded.
type ExceededError struct {
	Of    string // what is counted, and in which time
	Limit int64
	Wait  time.Duration // until the request would be allowed
}

func (e *ExceededError) Error() string {
	return fmt.Sprintf("more than %d %s; try again in %d s", e.Limit, e.Of, e.Seconds())
}

// Is makes every ExceededError match ErrExceeded.
func (e *ExceededError) Is(target error) bool { return target == ErrExceeded }

// Seconds returns Wait in whole seconds, rounded up.
func (e *ExceededError) Seconds() int { return int((e.Wait + time.Second - 1) / time.Second) }

// Take counts n of a kind, or returns an ExceededError and counts nothing. More than a
// minute's quota at once needs a full minute's quota, and the owner has to wait until all
// of it is made up for. nil Quotas have no limits.
func (q *Quotas) Take(kind Kind, owner events.Owner, n int) error {
	if q == nil || q.limits[kind] == 0 {
		return nil
	}
	now, limit := q.now(), q.limits[kind]
	l, first := q.limiter(kind, owner), min(n, limit)
	// A reservation that is canceled would not give back all that it took, if another came
	// after it.
	if !l.AllowN(now, first) {
		missing := (float64(first) - l.TokensAt(now)) / float64(l.Limit())
		return &ExceededError{names[kind], int64(limit), max(1, time.Duration(missing*float64(time.Second)))}
	}
	for n -= first; n > 0; n -= limit {
		l.ReserveN(now, min(n, limit)) // owed; a reservation may have no more than the limit
	}
	return nil
}

// GiveBack undoes a Take of a request that did nothing.
func (q *Quotas) GiveBack(kind Kind, owner events.Owner, n int) {
	if q != nil && q.limits[kind] > 0 {
		q.limiter(kind, owner).ReserveN(q.now(), -n)
	}
}

func (q *Quotas) limiter(kind Kind, owner events.Owner) *rate.Limiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.owners[of{kind, owner}]
	if l == nil {
		if len(q.owners) >= 100_000 { // about 150 bytes each; all start again with a full minute's quota
			clear(q.owners)
		}
		limit := q.limits[kind]
		l = rate.NewLimiter(rate.Limit(limit)/60, limit)
		q.owners[of{kind, owner}] = l
	}
	return l
}
