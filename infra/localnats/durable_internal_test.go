package localnats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// disk is a folder of blocks that a server appends to, and what of it a power
// cut would leave: of each file no more than it had when an fsync of it began.
type disk struct {
	t *testing.T
	g *GroupSync

	mu      sync.Mutex
	block   int
	sizes   map[int]int64 // what was written
	durable map[int]int64
	named   int // the newest block whose name is durable
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	d := &disk{t: t, g: newGroupSync(t), block: 1, sizes: map[int]int64{1: 1}, durable: map[int]int64{}}
	d.g.watch = d.synced
	return d
}

func (d *disk) synced(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if path == d.g.dir {
		d.named = d.block
	}
	var n int
	if _, err := fmt.Sscanf(filepath.Base(path), "%d.blk", &n); err == nil {
		d.durable[n] = d.sizes[n]
	}
}

// write appends to the newest block, or begins another one, and returns where
// the message ends.
func (d *disk) write(length int, next bool) (block int, end int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if next {
		d.block++
	}
	f, err := os.OpenFile(filepath.Join(d.g.dir, strconv.Itoa(d.block)+".blk"), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		d.t.Error(err)
		return 0, 0
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, length)); err != nil {
		d.t.Error(err)
	}
	d.sizes[d.block] += int64(length)
	return d.block, d.sizes[d.block]
}

// check is for after a sync that began after the write.
func (d *disk) check(block int, end int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.durable[block] < end || d.named < block {
		d.t.Errorf("block %d up to %d: durable are %d bytes of it, and the names up to %d", block, end, d.durable[block], d.named)
	}
}

// A message that comes while its block is being synced, and before the next
// block is made, is in no fsync of that round, and must be in the next one.
func TestABlockIsSyncedToItsEnd(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	sync := func() {
		t.Helper()
		if err := d.g.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sync()
	first, firstEnd := d.write(10, false)
	var second, third int
	var secondEnd, thirdEnd int64
	d.g.watch = func(path string) {
		d.synced(path)
		if filepath.Base(path) == "1.blk" && third == 0 {
			second, secondEnd = d.write(20, false)
			third, thirdEnd = d.write(30, true)
		}
	}
	sync()
	d.check(first, firstEnd)
	sync()
	d.check(second, secondEnd)
	d.check(third, thirdEnd)
}

func TestWhatWasSyncedIsDurable(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	var writers sync.WaitGroup
	for i := range 16 {
		writers.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(i), 1))
			for range 200 {
				sync, _ := d.g.Join()
				block, end := d.write(1+chance.IntN(100), chance.IntN(20) == 0)
				if err := sync(t.Context()); err != nil {
					t.Error(err)
					return
				}
				d.check(block, end)
			}
		})
	}
	writers.Wait()
	if d.block < 50 {
		t.Errorf("%d blocks only", d.block)
	}
}

// What a failed fsync was for may be gone, though the next one succeeds.
func TestAfterAFailedFsyncNothingIsDurable(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	path := filepath.Join(d.g.dir, "1.blk")
	if err := d.g.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
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
	d := newDisk(t)
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
	block, end := d.write(5, false)
	if err := sync(); err != nil {
		t.Error(err)
	}
	d.check(block, end)
}
