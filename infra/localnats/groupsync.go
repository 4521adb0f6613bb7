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
// the next one. Nobody ever waits for a timer.
//
// This leans on how the store lays out its files: <stream>/msgs/<n>.blk, n
// growing by one, messages appended to the newest. The version of the server
// is pinned for it, and a test watches the system calls.
type GroupSync struct {
	dir string

	mu      sync.Mutex
	waiting []chan error
	working bool

	// Of the one goroutine that works.
	newest int // number of the newest block that was synced, 0 for none
	all    bool
}

const blockSuffix = ".blk"

// ErrSync says that an fsync failed: what it should have covered may be lost
// in a power cut.
var ErrSync = errors.New("group sync failed")

// Sync returns once everything that the stream acknowledged before the call is
// on stable storage.
func (g *GroupSync) Sync(ctx context.Context) error {
	done := make(chan error, 1)
	g.mu.Lock()
	g.waiting = append(g.waiting, done)
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
		g.mu.Lock()
		round := g.waiting
		g.waiting = nil
		if len(round) == 0 {
			g.working = false
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		err := g.round()
		for _, done := range round {
			done <- err
		}
	}
}

// round syncs the newest block, and those before it that were not synced when
// they were the newest. A block that fails to sync is tried again in the next
// round; but its pages may be gone by then, so the caller of this round is
// told.
func (g *GroupSync) round() error {
	if g.all || g.newest == 0 {
		return g.roundOfAll()
	}
	for {
		if err := syncFile(g.block(g.newest)); err != nil {
			g.newest = 0
			return fmt.Errorf("%w: %w", ErrSync, err)
		}
		if _, err := os.Stat(g.block(g.newest + 1)); err != nil {
			return nil
		}
		// A new block: its name must survive as well.
		if err := syncFile(g.dir); err != nil {
			return fmt.Errorf("%w: %w", ErrSync, err)
		}
		g.newest++
	}
}

// roundOfAll syncs every block there is, and what the server needs to find
// them again: the stream's own description and the names of the folders on the
// way.
func (g *GroupSync) roundOfAll() error {
	stream := filepath.Dir(g.dir)
	for _, path := range []string{"meta.inf", "meta.sum", ".", "..", "../..", "../../.."} {
		if err := syncFile(filepath.Join(stream, path)); err != nil {
			return fmt.Errorf("%w: %w", ErrSync, err)
		}
	}
	entries, err := os.ReadDir(g.dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSync, err)
	}
	newest := 0
	for _, e := range entries {
		n, err := strconv.Atoi(strings.TrimSuffix(e.Name(), blockSuffix))
		if err != nil || !strings.HasSuffix(e.Name(), blockSuffix) {
			continue
		}
		// A block that was emptied meanwhile has nothing left to sync.
		if err := syncFile(g.block(n)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%w: %w", ErrSync, err)
		}
		newest = max(newest, n)
	}
	if err := syncFile(g.dir); err != nil {
		return fmt.Errorf("%w: %w", ErrSync, err)
	}
	g.newest = newest
	return nil
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
