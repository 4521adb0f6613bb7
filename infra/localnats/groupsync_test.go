package localnats

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A failed fsync may have lost its bytes, even if the next fsync succeeds.
func TestAfterAFailedFsyncNothingIsDurable(t *testing.T) {
	t.Parallel()
	stream := filepath.Join(t.TempDir(), "$G", "streams", "LEDGER")
	msgs := filepath.Join(stream, "msgs")
	must(t, os.MkdirAll(msgs, 0o700))
	for _, name := range []string{"meta.inf", "meta.sum", "msgs/1.blk"} {
		must(t, os.WriteFile(filepath.Join(stream, name), []byte("x"), 0o600))
	}
	g, path := newGroupSync(msgs, false), filepath.Join(msgs, "1.blk")
	// The link can be opened but not synced.
	must(t, errors.Join(os.Rename(path, path+".kept"), os.Symlink(os.DevNull, path)))
	want := g.Sync(t.Context())
	if !errors.Is(want, ErrSync) || !errors.Is(want, errLost) {
		t.Fatalf("an fsync that failed: %v", want)
	}
	must(t, errors.Join(os.Remove(path), os.Rename(path+".kept", path)))
	if err := g.Sync(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("after one that failed: %v", err)
	}
}
