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

// GroupSync makes a stream's stored messages durable, with one fsync for all callers
// that ask at the same time. It syncs the stream's files. It never reads or writes them.
//
// With SyncAlways on, a server does one fsync per message, one after another. With
// SyncAlways off, a file stream with one replica still writes each message to its file
// before it acknowledges the message (nats-server 2.15: AsyncFlush is off for such
// streams, see stream.go, and writeMsgRecordLocked flushes in place). Only the fsync is
// left to a timer. GroupSync does that fsync on demand. A caller asks for it after the
// server acknowledged the message, so any fsync that begins later covers the message.
// While one round of fsyncs runs, the next callers gather and share the next round.
//
// A failed fsync may have lost its bytes, whatever the next fsync returns. So after a
// failed fsync every round fails, until a new start has read the store.
//
// GroupSync relies on how the server lays out a stream: <stream>/msgs/<n>.blk, with n
// growing by one. The server appends messages to the newest block. It completes that
// block before it makes the next one. The server's version is pinned for this reason,
// and tests watch the system calls and cut the power.
type GroupSync struct {
	dir       string                  // folder of the blocks
	rewritten bool                    // the server may rewrite any block
	syncFile  func(path string) error // replaced by tests

	mu      sync.Mutex
	waiting []chan error
	working bool
	closed  bool
	rounds  sync.WaitGroup

	// Used by the round that runs.
	newest int   // block that was the newest at the last round; 0: sync everything
	broken error // the error that every round returns from now on
}

const blockSuffix = ".blk"

// ErrSync says that a sync failed: a power cut may lose the messages that the sync
// should have covered.
var ErrSync = errors.New("group sync failed")

// errLost says that a failed fsync left the disk in an unknown state.
var errLost = errors.New("the disk failed; start again once it is well")

func newGroupSync(dir string, rewritten bool) *GroupSync {
	return &GroupSync{dir: dir, rewritten: rewritten, syncFile: syncFile}
}

// Sync returns once everything that the stream acknowledged before the call is
// on stable storage, or when ctx ends. Errors match [ErrSync].
func (g *GroupSync) Sync(ctx context.Context) error {
	done := make(chan error, 1)
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return fmt.Errorf("%w: the server was stopped", ErrSync)
	}
	g.waiting = append(g.waiting, done)
	if !g.working {
		g.working = true
		g.rounds.Go(g.work)
	}
	g.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrSync, ctx.Err())
	}
}

// work does rounds until no caller waits, and sends each result to all who waited for it.
func (g *GroupSync) work() {
	for {
		g.mu.Lock()
		waiting := g.waiting
		g.waiting, g.working = nil, len(waiting) > 0
		g.mu.Unlock()
		if len(waiting) == 0 {
			return
		}
		err := g.round()
		for _, done := range waiting {
			done <- err
		}
	}
}

// round makes the contents of the blocks durable.
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

// syncNewest syncs the block that was the newest at the last round, and all blocks made
// since then.
func (g *GroupSync) syncNewest() error {
	newest := g.newest
	for {
		// Look for the next block before the sync. If it exists, this block is complete. If
		// not, no caller of this round wrote to a later block.
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
	if newest > g.newest { // the new blocks' names must also survive
		if err := g.syncFile(g.dir); err != nil {
			return err
		}
	}
	g.newest = newest
	return nil
}

// syncAll syncs every block, and everything that the server needs to find the blocks
// again: the stream's own description, and the names of the folders on the path to it.
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

// GroupSync returns the group sync of a stream, the same one on every call.
// rewritten says that the server may remove older messages of the stream, as it does in
// a bucket. Then a round syncs every block, because the server may have rewritten any
// of them.
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

// SyncStream makes durable everything that a server running on dir (its Config.Dir) has
// written to a stream's files. Call it from a process other than the server's, which
// has no [GroupSync]. The error matches os.ErrNotExist if the folder has no such stream.
func SyncStream(dir, stream string) error {
	return newGroupSync(blocksOf(filepath.Join(dir, storeName), stream), true).syncAll()
}

// blocksOf returns the folder where a server keeps a stream's blocks.
func blocksOf(store, stream string) string {
	return filepath.Join(store, "$G", "streams", stream, "msgs")
}
