package eventlog

import (
	"context"
	"sync"
	"time"

	"github.com/memory-ledger/ledger/events"
)

const (
	// ownOwners bounds how many owners an Own knows one by one, some 12 MB.
	ownOwners = 100_000
	// ownPause is how long nobody else must have been connected, and no append
	// have failed, before an Own is believed again: what was under way then is in
	// the log or gone.
	ownPause = 5 * time.Second
)

// Premises is the log's server where that runs in this process.
type Premises interface {
	// Visits returns how many connections from elsewhere were let in so far. It
	// counts them before they may do anything.
	Visits() uint64
	// Alone reports whether no connection from elsewhere is open.
	Alone() bool
}

// Own knows the newest message of each owner in a log that this process alone
// fills, so that a reader who only wants to know what is acknowledged need not
// ask the server: that takes a dozen changes of goroutine, each of which waits
// its turn where many have work.
//
// It is believed as long as nobody else is let in at the server, and each append
// of this process is known to be stored or not. Beyond that it says that it does
// not know, and the log is asked. It is for a process that the server does not
// outlive; all appends must go through logs that share it.
type Own struct {
	premises Premises
	pause    time.Duration // ownPause

	mu       sync.Mutex
	newest   map[events.Owner]uint64 // those who appended since floor
	floor    uint64                  // nobody else has anything newer
	highest  uint64                  // that was noted
	believed bool
	visits   uint64 // at which it is believed
	doubts   uint64 // how many appends ended without anybody knowing how

	looking  bool
	looked   time.Time // the zero time before the first look
	lookedAt struct {  // what there was then
		visits, doubts uint64
		alone          bool
	}
}

// NewOwn returns an Own of a server that runs in this process.
func NewOwn(p Premises) *Own {
	return &Own{premises: p, pause: ownPause, newest: map[events.Owner]uint64{}}
}

// WithOwn returns the log with an Own, which its appends are noted in.
func (l *JetStream) WithOwn(o *Own) *JetStream {
	owned := *l
	owned.own = o
	return &owned
}

// Newest returns the sequence of the owner's newest message in the log, of either
// family, or a later one after which the owner has none: all that was acknowledged
// before the call is covered, and where it returns the same again, nothing came. It
// asks nobody, and may not know.
func (l *JetStream) Newest(o events.Owner) (seq uint64, known bool) {
	if l.own == nil {
		return 0, false
	}
	seq, known = l.own.of(o)
	if !known {
		l.own.look(time.Now(), l.Head)
	}
	return seq, known
}

// note is for a message that the log has taken, before anybody is told.
func (o *Own) note(owner events.Owner, seq uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.highest = max(o.highest, seq)
	o.newest[owner] = max(o.newest[owner], seq)
	if len(o.newest) > ownOwners {
		o.floor, o.newest = max(o.floor, o.highest), map[events.Owner]uint64{}
	}
}

// doubt is for an append of which nobody knows whether it is stored.
func (o *Own) doubt() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.doubts++
	o.believed = false
}

func (o *Own) of(owner events.Owner) (seq uint64, known bool) {
	visits := o.premises.Visits()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.believed || visits != o.visits {
		return 0, false
	}
	return max(o.floor, o.newest[owner]), true
}

// look finds out in the background whether it may be believed, once in a while.
func (o *Own) look(now time.Time, head func(context.Context) (uint64, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.looking || !o.looked.IsZero() && now.Sub(o.looked) < o.pause {
		return
	}
	o.looking = true
	go o.begin(now, head)
}

// begin begins anew, where nobody was there and nothing in doubt at the last look
// and since. What this process appends from now on is noted; what is stored before
// head is asked for is below the floor; and nobody else appends.
func (o *Own) begin(now time.Time, head func(context.Context) (uint64, error)) {
	visits, alone := o.premises.Visits(), o.premises.Alone()
	o.mu.Lock()
	was := o.lookedAt
	is := was
	is.visits, is.doubts, is.alone = visits, o.doubts, alone
	o.looked, o.lookedAt = now, is
	quiet := alone && (is == was || visits == 0 && o.doubts == 0)
	if quiet {
		o.believed = false
		o.newest, o.floor, o.highest = map[events.Owner]uint64{}, 0, 0
	}
	o.mu.Unlock()

	var end uint64
	var err error
	if quiet {
		ctx, cancel := context.WithTimeout(context.Background(), ownPause)
		defer cancel()
		end, err = head(ctx)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looking = false
	if !quiet || err != nil || o.doubts != is.doubts {
		return
	}
	o.floor = max(o.floor, end)
	o.believed, o.visits = true, visits
}
