package localnats

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// disk is a folder of blocks that a server appends to. It records what a power cut would
// leave: of each file, only the bytes that the file had when its last fsync began.
type disk struct {
	t *testing.T
	g *GroupSync

	mu      sync.Mutex
	block   int
	written map[int]int // bytes in a block
	durable map[int]int // how many of them are synced
	named   int         // the newest block whose name is durable
}

func newDisk(t *testing.T) *disk {
	t.Helper()
	stream := filepath.Join(t.TempDir(), "$G", "streams", "LEDGER")
	msgs := filepath.Join(stream, "msgs")
	must(t, os.MkdirAll(msgs, 0o700))
	for _, name := range []string{"meta.inf", "meta.sum", "msgs/1.blk"} {
		must(t, os.WriteFile(filepath.Join(stream, name), []byte("x"), 0o600))
	}
	d := &disk{t: t, g: newGroupSync(msgs, false), block: 1, written: map[int]int{1: 1}, durable: map[int]int{}}
	d.g.syncFile = func(path string) error {
		d.begun(path)
		return syncFile(path)
	}
	return d
}

// begun records that a sync of a file begins.
func (d *disk) begun(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if path == d.g.dir {
		d.named = d.block
	}
	var n int
	if _, err := fmt.Sscanf(filepath.Base(path), "%d.blk", &n); err == nil {
		d.durable[n] = d.written[n]
	}
}

// A failed fsync may have lost its bytes, even if the next fsync succeeds.
func TestAfterAFailedFsyncNothingIsDurable(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	path := filepath.Join(d.g.dir, "1.blk")
	// The link can be opened but not synced.
	must(t, errors.Join(os.Rename(path, path+".kept"), os.Symlink(os.DevNull, path)))
	want := d.g.Sync(t.Context())
	if !errors.Is(want, ErrSync) || !errors.Is(want, errLost) {
		t.Fatalf("an fsync that failed: %v", want)
	}
	must(t, errors.Join(os.Remove(path), os.Rename(path+".kept", path)))
	if err := d.g.Sync(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("after one that failed: %v", err)
	}
}
