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
)

// GroupSync makes what a stream has stored durable: one fsync for all callers that
// ask at the same time. It syncs the stream's files. It never reads or writes them.
//
// A server with SyncAlways does one fsync a message, one after the other. With
// it off, a file stream of one replica still writes each message to its file
// before it acknowledges it (nats-server 2.15: AsyncFlush is off for such
// streams, see stream.go, and writeMsgRecordLocked flushes in place), and only
// the fsync is left to a timer. GroupSync does that fsync on demand. A caller
// asks after its acknowledgement came, so any fsync that begins later covers its
// bytes. While one round of fsyncs runs the next callers gather, and share the next
// round.
//
// A caller that comes while no round runs does the next one itself: a goroutine of
// its own took a lone writer a twelfth of its time. A disk that hangs keeps this one
// caller past its deadline; the others wait no longer than their contexts last.
//
// An fsync that failed may have lost its bytes, whatever the next one says. So after
// one that failed every round fails, until a new start has read the store.
//
// GroupSync relies on how the server lays out a stream: <stream>/msgs/<n>.blk, n
// growing by one, messages appended to the newest block, which is complete before
// the next one is made. The server's version is pinned for it, and tests watch the
// system calls and cut the power.
type GroupSync struct {
	dir       string                  // of the blocks
	rewritten bool                    // the server may write any block again
	syncFile  func(path string) error // replaced by tests

	mu      sync.Mutex
	waiting []chan error
	working bool
	closed  bool
	rounds  sync.WaitGroup

	// Used by the round that runs.
	newest int   // block that was the newest at the last round; 0: sync everything
	broken error // what every round returns from now on
}

const blockSuffix = ".blk"

// ErrSync says that an fsync failed: what it should have covered may be lost
// in a power cut.
var ErrSync = errors.New("group sync failed")

// errLost says that it is not known what is on the disk.
var errLost = errors.New("the disk failed; start again once it is well")

func newGroupSync(dir string, rewritten bool) *GroupSync {
	return &GroupSync{dir: dir, rewritten: rewritten, syncFile: syncFile}
}

// Sync returns once everything that the stream acknowledged before the call is
// on stable storage, or ctx ends. A caller that does the round itself returns no
// sooner than the disk lets it. Errors match [ErrSync].
func (g *GroupSync) Sync(ctx context.Context) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return fmt.Errorf("%w: the server was stopped", ErrSync)
	}
	if !g.working {
		g.working = true
		g.rounds.Add(1)
		g.mu.Unlock()
		defer g.rounds.Done()
		err := g.serve()
		if g.more() {
			g.rounds.Go(g.work)
		}
		return err
	}
	done := make(chan error, 1)
	g.waiting = append(g.waiting, done)
	g.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrSync, ctx.Err())
	}
}

// work serves rounds until no caller waits.
func (g *GroupSync) work() {
	for {
		_ = g.serve() // the waiting callers got it
		if !g.more() {
			return
		}
	}
}

// more reports whether a caller waits. Where none does, the next caller leads.
func (g *GroupSync) more() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.working = len(g.waiting) > 0
	return g.working
}

// serve does one round and tells all that wait for it.
func (g *GroupSync) serve() error {
	g.mu.Lock()
	waiting := g.waiting
	g.waiting = nil
	g.mu.Unlock()
	err := g.round()
	for _, done := range waiting {
		done <- err
	}
	return err
}

// round makes durable what the blocks hold.
func (g *GroupSync) round() error {
	if g.broken != nil {
		return g.broken
	}
	cover := g.syncNewest
	if g.newest == 0 || g.rewritten {
		cover = g.syncAll
	}
	err := cover()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w", ErrSync, err)
	if errors.Is(err, errLost) {
		g.broken = err
	}
	g.newest = 0
	return err
}

// syncNewest syncs the newest block, and those that were made since the last
// round.
func (g *GroupSync) syncNewest() error {
	newest := g.newest
	for {
		// Looked for before the sync: a block that has a successor is complete, and
		// no caller of this round wrote to a later one.
		_, missing := os.Lstat(blockPath(g.dir, newest+1))
		if missing != nil && !errors.Is(missing, os.ErrNotExist) {
			return missing
		}
		if err := g.syncFile(blockPath(g.dir, newest)); err != nil {
			return err
		}
		if missing != nil {
			break
		}
		newest++
	}
	if newest > g.newest { // the new blocks' names must survive as well
		if err := g.syncFile(g.dir); err != nil {
			return err
		}
	}
	g.newest = newest
	return nil
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
		text, isBlock := strings.CutSuffix(e.Name(), blockSuffix)
		n, err := strconv.Atoi(text)
		if !isBlock || err != nil {
			continue
		}
		// A block that the server removed meanwhile has nothing left to sync.
		if err := g.syncFile(filepath.Join(g.dir, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		newest = max(newest, n)
	}
	g.newest = newest
	return g.syncFile(g.dir)
}

func blockPath(dir string, n int) string { return filepath.Join(dir, strconv.Itoa(n)+blockSuffix) }

// syncFile makes a file, or the names in a folder, durable.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() // nothing was written through it
	if err := f.Sync(); err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}

// close waits for the rounds and refuses later ones.
func (g *GroupSync) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.rounds.Wait()
}

// GroupSync returns the group sync of a stream, the same one each time.
// rewritten says that the stream's older messages may go, as a bucket's do: then
// a round syncs every block, since the server may have written any of them again.
func (s *Server) GroupSync(stream string, rewritten bool) *GroupSync {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[stream]
	if g == nil {
		g = newGroupSync(blocksOf(s.ns.StoreDir(), stream), rewritten)
		s.groups[stream] = g
	}
	return g
}

// SyncStream makes durable what a server, running on a folder (Config.Dir), has
// written to a stream's files. It is for another process than the server's, which
// has no [GroupSync] to ask. The error matches os.ErrNotExist where the folder has
// no such stream.
func SyncStream(dir, stream string) error {
	return newGroupSync(blocksOf(filepath.Join(dir, storeName), stream), true).syncAll()
}

// blocksOf is where a server keeps a stream's blocks.
func blocksOf(store, stream string) string {
	return filepath.Join(store, "$G", "streams", stream, "msgs")
}
