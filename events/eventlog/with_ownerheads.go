package eventlog

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/memory-ledger/ledger/events"
)

const (
	// headsOwners bounds how many owners are known individually, about 12 MB.
	headsOwners = 100_000
	// headsPause is how long no other process must have been connected, and no append must
	// have ended in doubt, before the heads are trusted again. By then, an append that was
	// under way is in the log or gone.
	headsPause = 5 * time.Second
)

// ServerProbe is the log's server, which runs in this process.
type ServerProbe interface {
	// Visits returns how many connections from other processes the server has accepted
	// so far. It counts a connection before the connection can do anything.
	Visits() uint64
	// Alone reports whether no connection from another process is open.
	Alone() bool
}

// OwnerHeads is a log that knows the newest message of each owner, as long as only this
// process appends. A reader that only needs to know what is acknowledged then need not ask
// the server, which takes a dozen goroutine switches.
//
// The heads are trusted as long as no other process is connected to the server, and the
// outcome of each append of this process is known. Otherwise Newest reports that it does
// not know, and the reader asks the log. OwnerHeads is for a process that the server does
// not outlive. All appends of the process must go through it.
type OwnerHeads struct {
	Log
	probe ServerProbe
	pause time.Duration // headsPause

	mu       sync.Mutex
	newest   map[events.Owner]uint64 // owners that appended since floor
	floor    uint64                  // no other owner has anything newer
	highest  uint64                  // highest sequence noted
	believed bool
	visits   uint64 // probe.Visits at which the heads are trusted
	doubts   uint64 // appends that may or may not be stored

	looking  bool
	looked   time.Time // the zero time before the first look
	lookedAt struct {  // the state at the last look
		visits, doubts uint64
		alone          bool
	}
}

// WithOwnerHeads returns a log that notes its appends.
func WithOwnerHeads(log Log, probe ServerProbe) *OwnerHeads {
	return &OwnerHeads{Log: log, probe: probe, pause: headsPause, newest: map[events.Owner]uint64{}}
}

// Append implements Appender. It notes the message before any reader can learn of it.
func (o *OwnerHeads) Append(ctx context.Context, a Append) (Appended, error) {
	appended, err := o.Log.Append(ctx, a)
	switch {
	case err == nil:
		o.note(a.Owner, appended.Seq)
	case errors.Is(err, ErrUncertain):
		o.doubt()
	}
	return appended, err
}

// Newest returns the sequence of the owner's newest message in the log, of either family,
// or a later sequence after which the owner has none. It covers all messages acknowledged
// before the call. Two equal answers mean that the owner has nothing new. Newest does not
// ask the server. If it does not know, known is false.
func (o *OwnerHeads) Newest(owner events.Owner) (seq uint64, known bool) {
	seq, known = o.of(owner)
	if !known {
		o.look(time.Now(), o.Head)
	}
	return seq, known
}

func (o *OwnerHeads) note(owner events.Owner, seq uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.highest = max(o.highest, seq)
	o.newest[owner] = max(o.newest[owner], seq)
	if len(o.newest) > headsOwners {
		o.floor, o.newest = max(o.floor, o.highest), map[events.Owner]uint64{}
	}
}

// doubt notes an append that may or may not be stored.
func (o *OwnerHeads) doubt() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.doubts++
	o.believed = false
}

func (o *OwnerHeads) of(owner events.Owner) (seq uint64, known bool) {
	visits := o.probe.Visits()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.believed || visits != o.visits {
		return 0, false
	}
	return max(o.floor, o.newest[owner]), true
}

// look checks in the background, at most once per pause, whether the heads can be trusted.
func (o *OwnerHeads) look(now time.Time, head func(context.Context) (uint64, error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.looking || !o.looked.IsZero() && now.Sub(o.looked) < o.pause {
		return
	}
	o.looking = true
	go o.begin(now, head)
}

// begin makes the heads trusted if no other process was connected and no append was in
// doubt, at the last look and since. From now on the appends of this process are noted, the
// floor covers the messages stored before head was read, and no other process appends.
func (o *OwnerHeads) begin(now time.Time, head func(context.Context) (uint64, error)) {
	visits, alone := o.probe.Visits(), o.probe.Alone()
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
		ctx, cancel := context.WithTimeout(context.Background(), headsPause)
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
