package anchorer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/tree"
)

const (
	// lagShortest and lagLongest bound the backoff of an owner whose leaves the tree
	// cache does not have yet. The backoff doubles each time.
	lagShortest = 500 * time.Millisecond
	lagLongest  = 15 * time.Second
	// lagPatience is how long the cache can lack the same leaves before it is reported.
	lagPatience = 3 * time.Minute
	// maxLagging bounds the backlog. If that many owners lag, the projector lags. Other
	// owners are then not searched for until the leaves of one lagging owner are in the
	// tree cache.
	maxLagging = 256
)

// errLagging says that the tree cache has long lacked leaves that the log has.
var errLagging = errors.New("the tree cache lacks leaves that the log has; is a projector down?")

// laggingOwner is an owner whose leaves the tree cache does not have yet.
type laggingOwner struct {
	size  uint64    // the tree size that the cache lacks
	since time.Time // when the lag was first seen
	until time.Time // when to look again
	times int
}

// backlog keeps the lagging owners apart from the owners that are held back, because a
// lag says nothing about the trouble that an owner was held back for. Lagging owners are
// tried again and again.
type backlog struct {
	all map[events.Owner]*laggingOwner
}

func newBacklog() *backlog { return &backlog{all: make(map[events.Owner]*laggingOwner)} }

// crowded reports whether so many owners already lag that the tree cache need not be
// asked for key.
func (l *backlog) crowded(key events.Owner) bool {
	return l.all[key] == nil && len(l.all) >= maxLagging
}

// split returns the lagging owners to skip for now, and those to try again.
func (l *backlog) split(now time.Time) (later, again []events.Owner) {
	for key, one := range l.all {
		if one.until.After(now) {
			later = append(later, key)
		} else {
			again = append(again, key)
		}
	}
	return later, again
}

// note records a lag of the owner and doubles its backoff, up to lagLongest.
func (l *backlog) note(key events.Owner, size uint64, now time.Time) {
	one := l.all[key]
	if one == nil {
		one = &laggingOwner{size: size, since: now}
		l.all[key] = one
	}
	one.until = now.Add(min(lagLongest, lagShortest<<min(one.times, 16)))
	one.times++
}

func (l *backlog) forget(key events.Owner) { delete(l.all, key) }

// trouble says how many owners' leaves have long been missing from the tree cache.
func (l *backlog) trouble(now time.Time) error {
	var since time.Time
	late := 0
	for _, one := range l.all {
		if now.Sub(one.since) < lagPatience {
			continue
		}
		late++
		if since.IsZero() || one.since.Before(since) {
			since = one.since
		}
	}
	if late == 0 {
		return nil
	}
	return fmt.Errorf("%w: of %d owners, since %s", errLagging, late, since.UTC().Format(time.RFC3339))
}

// lags holds back an owner whose leaves the tree cache does not have. An owner who writes
// all the time may have new leaves at every look. If the leaves that were missing at
// first are in the cache by now, the count and the time of the lag start again from zero.
func (d *driver) lags(ctx context.Context, o *owner) error {
	if one := d.lag.all[o.key]; one != nil && one.size < o.size() {
		_, err := d.cfg.Tree.Root(ctx, o.key, one.size)
		if err == nil {
			d.lag.forget(o.key)
		} else if !errors.Is(err, tree.ErrIncomplete) {
			return fmt.Errorf("compare with the tree cache: %w", err)
		}
	}
	d.lag.note(o.key, o.size(), d.cfg.Now())
	return nil
}
