package localnats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// GroupSync makes what a stream has stored durable, one fsync for all who ask
// at the same time.
//
// A server with SyncAlways does one fsync a message, one after the other. With
// it off, a file stream of one replica still writes each message to its file
// before it acknowledges it (nats-server 2.15: AsyncFlush is off for such
// streams, see stream.go, and writeMsgRecordLocked flushes in place), and only
// the fsync is left to a timer. GroupSync does that fsync on demand: a caller
// asks after its acknowledgement came, and so any fsync that begins later
// covers its bytes. While one fsync runs the next callers gather; they share
// the next one.
//
// A caller that says beforehand that it will come ([GroupSync.Join]) is waited
// for: a round begins when all who had joined before its first caller came have
// come as well, or left, or gatherLimit is over. So 64 writers at a time share
// an fsync by the dozen, rather than by the three that happen to be done while
// another one runs, and one writer alone waits for nobody.
//
// An fsync that failed may have lost what it was for, whatever the next one
// says, and a log ends where something is missing. So after one that failed
// every round fails, until a new start has looked at what there is.
//
// This leans on how the store lays out its files: <stream>/msgs/<n>.blk, n
// growing by one, messages appended to the newest, which is complete before
// the next one is made. The version of the server is pinned for it, and a test
// watches the system calls.
type GroupSync struct {
	dir string

	mu      sync.Mutex
	waiting []chan error
	working bool
	joined  *generation // who joined since the last round began to gather

	// Of the one goroutine that works.
	newest int // number of the newest block that was synced, 0 for none
	all    bool
	broken error // every round's answer from now on

	watch func(path string) // told of what is about to be synced; for tests
}

const blockSuffix = ".blk"

// ErrSync says that an fsync failed: what it should have covered may be lost
// in a power cut.
var ErrSync = errors.New("group sync failed")

// errLost says that it is not known what is on the disk.
var errLost = errors.New("the disk failed; start again once it is well")

// gatherLimit bounds how long a round waits for those who joined. A write that
// takes longer than this to be acknowledged shares a later fsync.
const gatherLimit = time.Millisecond

// generation is the callers who joined between two rounds. Guarded by the mutex
// of its GroupSync.
type generation struct {
	missing int           // joined, and neither come nor left
	gone    chan struct{} // made by a round that waits; closed when nobody is missing
}

func (n *generation) leave() {
	n.missing--
	if n.missing == 0 && n.gone != nil {
		close(n.gone)
	}
}

// Join says that its caller will soon ask for a sync, of something that it is
// about to write. Then it calls sync, which is [GroupSync.Sync], or, where there
// turned out to be nothing to sync, leave: one of the two, once.
func (g *GroupSync) Join() (sync func(context.Context) error, leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.joined == nil {
		g.joined = new(generation)
	}
	mine := g.joined
	mine.missing++
	sync = func(ctx context.Context) error { return g.sync(ctx, mine) }
	leave = func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		mine.leave()
	}
	return sync, leave
}

// Sync returns once everything that the stream acknowledged before the call is
// on stable storage.
func (g *GroupSync) Sync(ctx context.Context) error { return g.sync(ctx, nil) }

func (g *GroupSync) sync(ctx context.Context, from *generation) error {
	done := make(chan error, 1)
	g.mu.Lock()
	g.waiting = append(g.waiting, done)
	if from != nil {
		from.leave()
	}
	if !g.working {
		g.working = true
		go g.work()
	}
	g.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrSync, ctx.Err())
	}
}

// work serves rounds until nobody waits.
func (g *GroupSync) work() {
	for {
		round := g.gather()
		if len(round) == 0 {
			return
		}
		err := g.round()
		for _, done := range round {
			done <- err
		}
	}
}

// gather returns who shares the next round, nobody if there is none to do.
func (g *GroupSync) gather() []chan error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) == 0 {
		g.working = false
		return nil
	}
	expected := g.joined
	g.joined = nil
	if expected != nil && expected.missing > 0 {
		expected.gone = make(chan struct{})
		g.mu.Unlock()
		limit := time.NewTimer(gatherLimit)
		select {
		case <-expected.gone:
		case <-limit.C:
		}
		limit.Stop()
		g.mu.Lock()
	}
	round := g.waiting
	g.waiting = nil
	return round
}

// round makes durable what the blocks hold.
func (g *GroupSync) round() error {
	if g.broken != nil {
		return g.broken
	}
	var err error
	if g.all || g.newest == 0 {
		err = g.syncAll()
	} else {
		err = g.syncNewest()
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w", ErrSync, err)
	if errors.Is(err, errLost) {
		g.broken = err
	}
	g.newest = 0 // the next round begins with everything
	return err
}

// syncNewest syncs the newest block, and those that were made since the last
// round.
func (g *GroupSync) syncNewest() error {
	for {
		// Looked for before the block is synced: one that has a successor is
		// complete, and whoever waits for this round wrote to no later one. A
		// successor that shows up afterwards may have come after more messages.
		grown, err := exists(g.block(g.newest + 1))
		if err != nil {
			return err
		}
		if err := g.syncFile(g.block(g.newest)); err != nil || !grown {
			return err
		}
		// A new block: its name must survive as well.
		if err := g.syncFile(g.dir); err != nil {
			return err
		}
		g.newest++
	}
}

// syncAll syncs every block there is, and what the server needs to find
// them again: the stream's own description and the names of the folders on the
// way.
func (g *GroupSync) syncAll() error {
	stream := filepath.Dir(g.dir)
	for _, path := range []string{"meta.inf", "meta.sum", ".", "..", "../..", "../../.."} {
		if err := g.syncFile(filepath.Join(stream, path)); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(g.dir)
	if err != nil {
		return err
	}
	newest := 0
	for _, e := range entries {
		n, err := strconv.Atoi(strings.TrimSuffix(e.Name(), blockSuffix))
		if err != nil || !strings.HasSuffix(e.Name(), blockSuffix) {
			continue
		}
		// A block that was emptied meanwhile has nothing left to sync.
		if err := g.syncFile(g.block(n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		newest = max(newest, n)
	}
	if err := g.syncFile(g.dir); err != nil {
		return err
	}
	g.newest = newest
	return nil
}

func (g *GroupSync) syncFile(path string) error {
	if g.watch != nil {
		g.watch(path)
	}
	return syncFile(path)
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (g *GroupSync) block(n int) string {
	return filepath.Join(g.dir, strconv.Itoa(n)+blockSuffix)
}

// GroupSync returns the group sync of a stream. rewritten says that the
// stream's older messages may go, as a bucket's do: then a round syncs every
// block, since the server may have written any of them anew.
func (s *Server) GroupSync(stream string, rewritten bool) *GroupSync {
	return &GroupSync{
		dir: filepath.Join(s.ns.StoreDir(), "$G", "streams", stream, "msgs"),
		all: rewritten,
	}
}
