package localnats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// disk is a folder of blocks that a server appends to, and what of it a power
// cut would leave: of each file no more than it had when an fsync of it began,
// and of the redo file what was written, which returns when it is durable.
type disk struct {
	t *testing.T
	g *GroupSync

	mu      sync.Mutex
	block   int
	data    map[int][]byte // what was written
	durable map[int]int    // how much of it is synced
	named   int            // the newest block whose name is durable

	restored int // how often the redo file was needed
}

// newDisk has a redo file of two halves, none if they have no length.
func newDisk(t *testing.T, half int64) *disk {
	t.Helper()
	d := &disk{t: t, g: newGroupSync(t), block: 1, data: map[int][]byte{1: []byte("x")}, durable: map[int]int{}}
	d.g.watch = d.synced
	if half > 0 {
		d.g.half, d.g.redoPath = half, filepath.Join(t.TempDir(), "redo", "LEDGER")
	}
	t.Cleanup(func() {
		if err := d.g.close(); err != nil && !errors.Is(err, errLost) {
			t.Error(err)
		}
	})
	return d
}

// eachKind runs a test with a redo file that is too small for some rounds, with
// one that holds a few, and without one.
func eachKind(t *testing.T, test func(t *testing.T, d *disk)) {
	for name, half := range map[string]int64{"plain": 0, "small": 2 * redoPage, "redo": 16 * redoPage} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newDisk(t, half))
		})
	}
}

func (d *disk) synced(step, path string) {
	if step != stepSync {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if path == d.g.dir {
		d.named = d.block
	}
	var n int
	if _, err := fmt.Sscanf(filepath.Base(path), "%d.blk", &n); err == nil {
		d.durable[n] = len(d.data[n])
	}
}

// write appends to the newest block, or begins another one, and returns where
// the message ends.
func (d *disk) write(message []byte, next bool) (block, end int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if next {
		d.block++
	}
	f, err := os.OpenFile(blockPath(d.g.dir, d.block), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		d.t.Error(err)
		return 0, 0
	}
	defer f.Close()
	if _, err := f.Write(message); err != nil {
		d.t.Error(err)
	}
	d.data[d.block] = append(d.data[d.block], message...)
	return d.block, len(d.data[d.block])
}

// check is for after a sync that began after the write: the power is cut, and
// the message is there.
func (d *disk) check(block, end int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.durable[block] >= end && d.named >= block {
		return
	}
	if d.g.redoPath == "" {
		d.t.Errorf("block %d up to %d: durable are %d bytes of it, and the names up to %d", block, end, d.durable[block], d.named)
		return
	}
	d.restored++
	left := d.t.TempDir()
	for n := 1; n <= d.named; n++ {
		if err := os.WriteFile(blockPath(left, n), d.data[n][:d.durable[n]], 0o600); err != nil {
			d.t.Error(err)
		}
	}
	if err := restore(d.g.redoPath, left, syncFile); err != nil {
		d.t.Error(err)
	}
	for n := 1; n <= block; n++ {
		got, err := os.ReadFile(blockPath(left, n))
		if err != nil {
			d.t.Error(err)
		}
		whole := len(d.data[n])
		if n == block {
			whole = end
		}
		if len(got) < whole || !bytes.HasPrefix(d.data[n], got) {
			d.t.Errorf("message in block %d up to %d: %d of %d bytes are left of block %d, synced were %d", block, end, len(got), whole, n, d.durable[n])
		}
	}
}

// A message that comes while its block is being synced, or after it was copied,
// and before the next block is made, is not in that round, and must be in the
// next one.
func TestABlockIsSyncedToItsEnd(t *testing.T) {
	t.Parallel()
	for step, round := range map[string]func(*GroupSync) error{
		stepSync: (*GroupSync).syncNewest, stepCopied: (*GroupSync).copyNewest,
	} {
		d := newDisk(t, 16*redoPage)
		if err := d.g.round(); err != nil {
			t.Fatal(err)
		}
		first, firstEnd := d.write(make([]byte, 10), false)
		var second, third, secondEnd, thirdEnd int
		d.g.watch = func(at, path string) {
			d.synced(at, path)
			if at == step && filepath.Base(path) == "1.blk" && third == 0 {
				second, secondEnd = d.write(make([]byte, 20), false)
				third, thirdEnd = d.write(make([]byte, 30), true)
			}
		}
		for range 2 {
			if err := round(d.g); err != nil {
				t.Fatal(err)
			}
			d.check(first, firstEnd)
		}
		d.check(second, secondEnd)
		d.check(third, thirdEnd)
	}
}

// Nor is what comes while a first round, which has nothing to go on from, syncs
// the block.
func TestAFirstRoundKnowsHowFarItCame(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 16*redoPage)
	var second, third, secondEnd, thirdEnd int
	d.g.watch = func(step, path string) {
		d.synced(step, path)
		if filepath.Base(path) == "1.blk" && third == 0 {
			second, secondEnd = d.write(make([]byte, 20), false)
			third, thirdEnd = d.write(make([]byte, 30), true)
		}
	}
	for range 2 {
		if err := d.g.round(); err != nil {
			t.Fatal(err)
		}
	}
	d.check(second, secondEnd)
	d.check(third, thirdEnd)
}

// A block is found by the names on the way to it and by what describes its stream,
// and so is the redo file: the first round syncs those as well.
func TestWhatLeadsToTheBlocksIsDurable(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d *disk) {
		synced := map[string]bool{}
		d.g.watch = func(step, path string) {
			if step == stepSync {
				synced[path] = true
			}
		}
		if err := d.g.round(); err != nil {
			t.Fatal(err)
		}
		stream := filepath.Dir(d.g.dir)
		streams := filepath.Dir(stream)
		account := filepath.Dir(streams)
		leading := []string{
			filepath.Join(stream, "meta.inf"), filepath.Join(stream, "meta.sum"),
			d.g.dir, stream, streams, account, filepath.Dir(account),
		}
		if d.g.redoPath != "" {
			leading = append(leading, filepath.Dir(d.g.redoPath), filepath.Dir(filepath.Dir(d.g.redoPath)))
		}
		for _, path := range leading {
			if !synced[path] {
				t.Errorf("%s is not synced", path)
			}
		}
	})
}

func TestWhatWasSyncedIsDurable(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, d *disk) {
		var writers sync.WaitGroup
		for i := range 16 {
			writers.Go(func() {
				chance := rand.NewChaCha8([32]byte{byte(i)})
				for range 60 {
					sync, _ := d.g.Join()
					message := make([]byte, 1+chance.Uint64()%3000)
					_, _ = chance.Read(message) // always all
					block, end := d.write(message, chance.Uint64()%20 == 0)
					if err := sync(t.Context()); err != nil {
						t.Error(err)
						return
					}
					if chance.Uint64()%16 == 0 || d.g.redoPath == "" {
						d.check(block, end) // after each of them it would take long
					}
				}
			})
		}
		writers.Wait()
		if d.block < 20 || d.g.half == 16*redoPage && d.restored < 5 {
			t.Errorf("%d blocks, restored %d times", d.block, d.restored)
		}
	})
}

// What a failed fsync was for may be gone, though the next one succeeds.
func TestAfterAFailedFsyncNothingIsDurable(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 4*redoPage)
	path := filepath.Join(d.g.dir, "1.blk")
	// Opens, and refuses to be synced.
	if err := errors.Join(os.Rename(path, path+".kept"), os.Symlink(os.DevNull, path)); err != nil {
		t.Fatal(err)
	}
	want := d.g.Sync(t.Context())
	if !errors.Is(want, ErrSync) || !errors.Is(want, errLost) {
		t.Fatalf("an fsync that failed: %v", want)
	}
	if err := errors.Join(os.Remove(path), os.Rename(path+".kept", path)); err != nil {
		t.Fatal(err)
	}
	if err := d.g.Sync(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("after one that failed: %v", err)
	}
}

// A file that can't be opened has lost nothing.
func TestAfterAFailedOpenSyncsGoOn(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 4*redoPage)
	path := filepath.Join(d.g.dir, "1.blk")
	sync := func() error { return d.g.Sync(context.WithoutCancel(t.Context())) }
	if err := sync(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+".kept"); err != nil {
		t.Fatal(err)
	}
	if err := sync(); !errors.Is(err, ErrSync) || errors.Is(err, errLost) {
		t.Errorf("without the file: %v", err)
	}
	if err := os.Rename(path+".kept", path); err != nil {
		t.Fatal(err)
	}
	block, end := d.write(make([]byte, 5), false)
	if err := sync(); err != nil {
		t.Error(err)
	}
	d.check(block, end)
}

// A stream that was made anew has blocks of the names that the old one had. What
// is in the old file is not what was written, so the round fails, and the next one
// begins with everything there is.
func TestABlockThatIsAnotherFile(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 16*redoPage)
	if err := d.g.round(); err != nil {
		t.Fatal(err)
	}
	path := blockPath(d.g.dir, 1)
	anew := filepath.Join(t.TempDir(), "anew")
	if err := errors.Join(os.WriteFile(anew, []byte("of another stream"), 0o600), os.Rename(anew, path)); err != nil {
		t.Fatal(err)
	}
	if err := d.g.round(); !errors.Is(err, ErrSync) || errors.Is(err, errLost) {
		t.Errorf("of a block that is another file: %v", err)
	}
	synced := false
	d.g.watch = func(step, at string) { synced = synced || step == stepSync && at == path }
	if err := d.g.round(); err != nil || !synced {
		t.Errorf("the next round: %v; the block is synced: %v", err, synced)
	}
}

// beside fills the redo file until a half of it is begun anew, while the first
// block is not what it was: trouble takes it away as soon as it is to be synced
// beside the rounds, and is over when beside returns. undo puts the block back.
// The blocks are then two, and all rounds so far succeeded.
func (d *disk) beside(trouble func(path string) error) (first place, undo func()) {
	d.t.Helper()
	path := blockPath(d.g.dir, 1)
	next := func(nextBlock bool) place {
		block, end := d.write(make([]byte, 100), nextBlock)
		if err := d.g.round(); err != nil {
			d.t.Fatal(err)
		}
		d.check(block, end)
		return place{block, int64(end)}
	}
	if err := d.g.round(); err != nil {
		d.t.Fatal(err)
	}
	first = next(false)
	next(true)
	var begun atomic.Bool
	d.g.watch = func(step, at string) {
		if step != stepSync || at != path || !begun.CompareAndSwap(false, true) {
			d.synced(step, at)
			return
		}
		if err := errors.Join(os.Rename(path, path+".kept"), trouble(path)); err != nil {
			d.t.Error(err)
		}
	}
	for d.g.syncs == nil {
		next(false)
	}
	d.g.syncs <- <-d.g.syncs // it is over, and nobody knows
	return first, func() {
		d.t.Helper()
		if err := errors.Join(os.RemoveAll(path), os.Rename(path+".kept", path)); err != nil {
			d.t.Fatal(err)
		}
	}
}

// untilRefused writes and syncs until that fails, as it does at the latest when the
// other half is full, and returns why.
func (d *disk) untilRefused() error {
	d.t.Helper()
	for range 64 {
		d.write(make([]byte, 100), false)
		if err := d.g.round(); err != nil {
			return err
		}
	}
	d.t.Fatal("nobody is told of it")
	return nil
}

// A block that can't be opened when its half of the redo file is to be free is not
// durable yet, and nothing else takes its place there.
func TestABlockThatIsNotSyncedBesideTheRounds(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 4*redoPage)
	first, undo := d.beside(func(string) error { return nil })
	if err := d.untilRefused(); !errors.Is(err, ErrSync) || !errors.Is(err, os.ErrNotExist) || errors.Is(err, errLost) {
		t.Fatalf("without the file: %v", err)
	}
	undo()
	for range 10 {
		block, end := d.write(make([]byte, 100), false)
		if err := d.g.round(); err != nil {
			t.Fatal(err)
		}
		d.check(first.block, int(first.offset))
		d.check(block, end)
	}
}

// What a failed fsync of a block was for may be gone, also where that ran beside the
// rounds. The redo file still has it, whatever is tried afterwards.
func TestABlockThatIsLostBesideTheRounds(t *testing.T) {
	t.Parallel()
	for name, between := range map[string]func(*testing.T, *disk, func()){
		"and the half is needed": func(t *testing.T, d *disk, undo func()) {
			if err := d.untilRefused(); !errors.Is(err, errLost) {
				t.Fatalf("when it is waited for: %v", err)
			}
			undo()
		},
		"and another round fails": func(t *testing.T, d *disk, undo func()) {
			undo()
			newest := blockPath(d.g.dir, d.block)
			if err := os.Rename(newest, newest+".kept"); err != nil {
				t.Fatal(err)
			}
			if err := d.g.round(); !errors.Is(err, os.ErrNotExist) || errors.Is(err, errLost) {
				t.Fatalf("without the newest block: %v", err)
			}
			if err := os.Rename(newest+".kept", newest); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDisk(t, 4*redoPage)
			// Opens, and refuses to be synced.
			first, undo := d.beside(func(path string) error { return os.Symlink(os.DevNull, path) })
			between(t, d, undo)
			if err := d.g.round(); !errors.Is(err, errLost) {
				t.Errorf("a round after that: %v", err)
			}
			if err := d.g.close(); !errors.Is(err, errLost) {
				t.Errorf("the end: %v", err)
			}
			d.check(first.block, int(first.offset))
			if d.durable[first.block] >= int(first.offset) {
				t.Error("the block was synced after all")
			}
		})
	}
}

// Nor is it known what a redo file holds that could not be written.
func TestARedoFileThatIsLost(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 4*redoPage)
	if err := d.g.round(); err != nil {
		t.Fatal(err)
	}
	if err := d.g.redo.file.Close(); err != nil {
		t.Fatal(err)
	}
	d.write(make([]byte, 100), false)
	for range 2 {
		if err := d.g.round(); !errors.Is(err, ErrSync) || !errors.Is(err, errLost) {
			t.Errorf("a redo file that can't be written: %v", err)
		}
	}
}
