package localnats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
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
// Who comes while no round runs does the next one itself: to wake a goroutine
// for it, and be woken by it, took a lone writer a twelfth of its time. So a disk
// that hangs keeps this caller past its deadline, and this one alone: whoever
// comes meanwhile waits for no longer than its context lasts.
//
// A stream that only grows has a redo file (see [redo]): a round copies there
// what the blocks got since the last one, and syncs that. Its own fsyncs come
// later, beside the rounds. What is too long to be written twice is synced where
// it is, and so is a stream whose blocks the server may write anew.
//
// An fsync that failed may have lost what it was for, whatever the next one
// says, and a log ends where something is missing. So after one that failed
// every round fails, until a new start has looked at what there is; after one
// that panicked likewise.
//
// This leans on how the store lays out its files: <stream>/msgs/<n>.blk, n
// growing by one, messages appended to the newest, which is complete before
// the next one is made. The version of the server is pinned for it, and tests
// watch the system calls and cut the power.
type GroupSync struct {
	dir      string // of the blocks
	redoPath string // empty: none
	half     int64  // of the redo file

	mu      sync.Mutex
	waiting []chan error
	working bool
	closed  bool
	joined  *generation // who joined since the last round began to gather
	worker  sync.WaitGroup

	// Of whoever does a round.
	at     place    // up to where rounds came, block 0 for nowhere
	reader *os.File // of that block, where there is a redo file
	opened status   // of the reader's file
	redo   *redo
	oldest int        // the block of the first byte in the half that is filled
	syncs  chan error // answers once the blocks of the other half are synced; nil: they are
	broken error      // every round's answer from now on

	watch func(step, path string) // told of files that are about to be synced, or were copied; for tests
}

// place is a number of bytes in a block.
type place struct {
	block  int
	offset int64
}

const (
	blockSuffix = ".blk"

	stepSync   = "sync"
	stepCopied = "copied"
)

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
// on stable storage, or ctx ends; but who does the round itself, because none ran,
// comes back from it no sooner than the disk lets it. Errors match [ErrSync].
func (g *GroupSync) Sync(ctx context.Context) error { return g.sync(ctx, nil) }

func (g *GroupSync) sync(ctx context.Context, from *generation) error {
	g.mu.Lock()
	if from != nil {
		from.leave()
	}
	if g.closed {
		g.mu.Unlock()
		return fmt.Errorf("%w: the server was stopped", ErrSync)
	}
	if !g.working {
		g.working = true
		g.worker.Add(1)
		g.mu.Unlock()
		return g.lead()
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

// lead does a round for its caller, and leaves those who came meanwhile to a
// goroutine.
func (g *GroupSync) lead() error {
	defer g.worker.Done()
	err := g.serve()
	if g.more() {
		g.worker.Go(g.work)
	}
	return err
}

// work serves rounds until nobody waits.
func (g *GroupSync) work() {
	for {
		_ = g.serve() // told to who waited
		if !g.more() {
			return
		}
	}
}

// more reports whether anybody waits. Where nobody does, the next caller leads.
func (g *GroupSync) more() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.working = len(g.waiting) > 0
	return g.working
}

// serve does one round and tells all who share it.
func (g *GroupSync) serve() error {
	round := g.gather()
	err := g.round()
	for _, done := range round {
		done <- err
	}
	return err
}

// gather returns who waits for the next round, once all of them came.
func (g *GroupSync) gather() []chan error {
	g.mu.Lock()
	defer g.mu.Unlock()
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

// round makes durable what the blocks hold. A panic in it is an error of everybody
// who waits, and breaks the rounds to come: nobody knows how far it came. Left to
// the request whose goroutine it is, it would have the others wait until their
// time is over, and whoever comes later too.
func (g *GroupSync) round() (err error) {
	if g.broken != nil {
		return g.broken
	}
	defer func() {
		if p := recover(); p != nil {
			g.broken = fmt.Errorf("%w: panic: %v: start again", ErrSync, p)
			err = fmt.Errorf("%w\n%s", g.broken, debug.Stack())
		}
	}()
	err = g.cover()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w", ErrSync, err)
	if errors.Is(err, errLost) {
		g.broken = err
	}
	g.at = place{} // the next round begins with everything
	return err
}

func (g *GroupSync) cover() error {
	if g.at.block == 0 {
		return g.syncAll()
	}
	err := g.copyNewest()
	if errors.Is(err, errLong) {
		return g.syncNewest()
	}
	return err
}

// copyNewest copies what the blocks got since the last round into the redo file.
// A crash before that is written leaves the round undone, and nobody was told of
// it.
func (g *GroupSync) copyNewest() error {
	g.redo.drop() // of a round that failed
	if err := g.sameBlock(); err != nil {
		return err
	}
	at := g.at
	for {
		// Looked for before the block is read: one that has a successor is
		// complete, and whoever waits for this round wrote to no later one.
		grown, err := g.exists(at.block + 1)
		if err != nil {
			return err
		}
		n, err := g.redo.take(at.block, g.reader, at.offset)
		if err != nil {
			return err
		}
		g.tell(stepCopied, g.reader.Name())
		at.offset += int64(n)
		if !grown {
			break
		}
		at = place{at.block + 1, 0}
		if err := g.open(at.block); err != nil {
			return err
		}
	}
	if !g.redo.fits() {
		if err := g.turn(); err != nil {
			return err
		}
	}
	if len(g.redo.pending) > 0 {
		if err := g.redo.write(); err != nil {
			return err
		}
	} // else an earlier round came just late enough to cover this one
	g.at = at
	return nil
}

// turn begins the other half of the redo file. That one's blocks are synced
// already, or are waited for; those of the half that is full are synced from now
// on, beside the rounds.
func (g *GroupSync) turn() error {
	if err := g.settle(); err != nil {
		return err
	}
	first, last, done := g.oldest, g.at.block, make(chan error, 1)
	g.syncs, g.oldest = done, last
	g.worker.Go(func() { done <- g.syncBlocks(first, last) })
	g.redo.next()
	return nil
}

// settle waits for the blocks that are being synced beside the rounds.
func (g *GroupSync) settle() error {
	if g.syncs == nil {
		return nil
	}
	err := <-g.syncs
	g.syncs = nil
	return err
}

func (g *GroupSync) syncBlocks(first, last int) error {
	for n := first; n <= last; n++ {
		if err := g.syncFile(blockPath(g.dir, n)); err != nil {
			return err
		}
	}
	return g.syncFile(g.dir) // one of them may be new
}

// syncNewest syncs the newest block, and those that were made since the last
// round.
func (g *GroupSync) syncNewest() error {
	at := g.at
	for {
		grown, err := g.exists(at.block + 1) // before the sync: see copyNewest
		if err != nil {
			return err
		}
		if at.offset, err = g.size(at.block); err != nil {
			return err
		}
		if err := g.syncFile(blockPath(g.dir, at.block)); err != nil {
			return err
		}
		if !grown {
			break
		}
		at.block++
	}
	// Their names must survive as well, those too of blocks that the redo file
	// could still make.
	if err := g.syncFile(g.dir); err != nil {
		return err
	}
	g.at = at
	return g.open(at.block)
}

// syncAll syncs every block there is, and what the server needs to find
// them again: the stream's own description and the names of the folders on the
// way. From then on a stream that only grows has a redo file.
func (g *GroupSync) syncAll() error {
	if err := g.settle(); errors.Is(err, errLost) {
		return err
	}
	stream := filepath.Dir(g.dir)
	for _, path := range []string{"meta.inf", "meta.sum", ".", "..", "../..", "../../.."} {
		if err := g.syncFile(filepath.Join(stream, path)); err != nil {
			return err
		}
	}
	numbers, err := blockNumbers(g.dir)
	if err != nil {
		return err
	}
	var at place
	for _, n := range numbers {
		size, err := g.size(n)
		if err == nil {
			err = g.syncFile(blockPath(g.dir, n))
		}
		// A block that was emptied meanwhile has nothing left to sync.
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if n > at.block {
			at = place{n, size}
		}
	}
	if err := g.syncFile(g.dir); err != nil {
		return err
	}
	if g.redoPath == "" || at.block == 0 {
		return nil // all of it again the next time
	}
	if err := g.emptyRedo(); err != nil {
		return err
	}
	g.at, g.oldest = at, at.block
	return g.open(at.block)
}

// emptyRedo is for when every block is synced.
func (g *GroupSync) emptyRedo() (err error) {
	if g.redo == nil {
		g.redo, err = openRedo(g.redoPath, g.half, g.syncFile)
		return err
	}
	return g.redo.forget()
}

// open opens a block for reading, unless it is open.
func (g *GroupSync) open(block int) error {
	path := blockPath(g.dir, block)
	if g.reader != nil {
		if g.reader.Name() == path && g.sameBlock() == nil {
			return nil
		}
		g.reader.Close() // of a file that was only read
	}
	var err error
	if g.reader, err = os.Open(path); err != nil {
		return err
	}
	g.opened, err = statusOf(g.reader)
	return err
}

// sameBlock makes sure that the block that is open is the one of that name: a
// stream that was deleted and made anew has other blocks of the same names.
func (g *GroupSync) sameBlock() error {
	if g.reader == nil {
		return fmt.Errorf("block: %w", os.ErrClosed)
	}
	named, err := statusAt(g.reader.Name())
	if err != nil {
		return err
	}
	if !named.same(g.opened) {
		return fmt.Errorf("%s is another file than it was", g.reader.Name())
	}
	return nil
}

func (g *GroupSync) exists(block int) (bool, error) {
	_, err := statusAt(blockPath(g.dir, block))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (g *GroupSync) size(block int) (int64, error) {
	now, err := statusAt(blockPath(g.dir, block))
	return now.length, err
}

// blockNumbers returns the numbers of the blocks in a folder, ascending.
func blockNumbers(dir string) ([]int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, e := range entries {
		text, isBlock := strings.CutSuffix(e.Name(), blockSuffix)
		if n, err := strconv.Atoi(text); isBlock && err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func blockPath(dir string, n int) string { return filepath.Join(dir, strconv.Itoa(n)+blockSuffix) }

func (g *GroupSync) syncFile(path string) error {
	g.tell(stepSync, path)
	return syncFile(path)
}

func (g *GroupSync) tell(step, path string) {
	if g.watch != nil {
		g.watch(step, path)
	}
}

// close waits for the rounds, syncs every block and empties the redo file, so
// that a later start depends on none. It is for when the server has stopped.
// Whatever keeps it from doing that, the redo file stays, and holds.
func (g *GroupSync) close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.worker.Wait()
	if g.redo == nil {
		return nil
	}
	err := g.broken
	if err == nil {
		err = g.syncAll()
	}
	if g.reader != nil {
		g.reader.Close() // of a file that was only read
	}
	return errors.Join(err, g.redo.file.Close())
}

// GroupSync returns the group sync of a stream, the same one each time.
// rewritten says that the stream's older messages may go, as a bucket's do: then
// a round syncs every block, since the server may have written any of them anew.
func (s *Server) GroupSync(stream string, rewritten bool) *GroupSync {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[stream]
	if g == nil {
		g = &GroupSync{dir: blocksOf(s.ns.StoreDir(), stream), half: redoHalf}
		if !rewritten {
			g.redoPath = filepath.Join(s.redoDir, stream)
		}
		s.groups[stream] = g
	}
	return g
}

// SyncStream makes durable what a server, running on a folder (Config.Dir), has
// written to a stream's files, by whomever. It is for another process than the
// server's, which has no [GroupSync] to ask. The error matches os.ErrNotExist where
// the folder has no such stream.
func SyncStream(dir, stream string) error {
	g := GroupSync{dir: blocksOf(filepath.Join(dir, storeName), stream)}
	return g.syncAll()
}

// blocksOf is where a server keeps a stream's blocks.
func blocksOf(store, stream string) string {
	return filepath.Join(store, "$G", "streams", stream, "msgs")
}
