package localnats

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// newRedo is a redo file with halves of eight pages.
func newRedo(t testing.TB) (r *redo, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "redo", "LEDGER")
	r, err := openRedo(path, 8*redoPage, syncFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.file.Close() })
	return r, path
}

// put writes one record, in the other half where this one is full.
func put(t testing.TB, r *redo, block int, offset int64, data string) {
	t.Helper()
	file := append(make([]byte, offset), data...)
	if n, err := r.take(block, bytes.NewReader(file), offset); err != nil || n != len(data) {
		t.Fatalf("%d, %v", n, err)
	}
	if !r.fits() {
		r.next()
	}
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
}

func contents(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func texts(records []redone) (texts []string) {
	for _, r := range records {
		texts = append(texts, string(r.data))
	}
	return texts
}

func TestRedoGivesBackWhatWasWritten(t *testing.T) {
	t.Parallel()
	r, path := newRedo(t)
	if got := readRedo(contents(t, path)); len(got) != 0 {
		t.Errorf("a new file holds %v", got)
	}
	var want []string
	for i := range 40 {
		text := string(bytes.Repeat([]byte{byte('a' + i%26)}, 1+i*300%6000))
		put(t, r, i, int64(i*10), text)
		want = append(want, text)
		got := readRedo(contents(t, path))
		if len(got) < min(len(want), 4) || !slices.Equal(texts(got), want[len(want)-len(got):]) {
			t.Fatalf("after %d records: %d of them, or others", len(want), len(got))
		}
		if last := got[len(got)-1]; last.block != i || last.offset != int64(i*10) {
			t.Errorf("record %d is of block %d at %d", i, last.block, last.offset)
		}
	}
	if err := r.forget(); err != nil {
		t.Fatal(err)
	}
	if got := readRedo(contents(t, path)); len(got) != 0 {
		t.Errorf("emptied, it holds %v", texts(got))
	}
}

// What an earlier turn or series left behind the newest record is not read,
// though it is at the place of the next one and has its number.
func TestRedoEndsAtItsNewestRecord(t *testing.T) {
	t.Parallel()
	r, path := newRedo(t)
	for range 8 {
		put(t, r, 1, 0, "old")
	}
	r.next()
	put(t, r, 1, 0, "other half")
	r.next()
	put(t, r, 1, 0, "new")
	if got := texts(readRedo(contents(t, path))); !slices.Equal(got, []string{"other half", "new"}) {
		t.Errorf("after a turn: %q", got)
	}
	if err := r.forget(); err != nil {
		t.Fatal(err)
	}
	put(t, r, 1, 0, "newest")
	if got := texts(readRedo(contents(t, path))); !slices.Equal(got, []string{"newest"}) {
		t.Errorf("in another series: %q", got)
	}
}

// A record that a power cut interrupted ends its half, whichever of its bytes
// did not get to the disk.
func TestRedoEndsAtDamage(t *testing.T) {
	t.Parallel()
	r, path := newRedo(t)
	var want []string
	for i := range 12 {
		text := string(bytes.Repeat([]byte{byte('a' + i)}, 700))
		put(t, r, 1, int64(i), text)
		want = append(want, text)
	}
	whole := contents(t, path)
	if got := texts(readRedo(whole)); !slices.Equal(got, want) {
		t.Fatalf("%d of %d records", len(got), len(want))
	}
	for at := range 8 * redoPage {
		if at%redoPage >= redoHeader+700 || at%redoPage > redoHeader && at%7 != 0 {
			continue // padding, or like its neighbours
		}
		damaged := bytes.Clone(whole)
		damaged[at] ^= 1
		expected := append(slices.Clone(want[:at/redoPage]), want[8:]...)
		if got := texts(readRedo(damaged)); !slices.Equal(got, expected) {
			t.Fatalf("with byte %d damaged: %d records, want %d", at, len(got), len(expected))
		}
	}
}

func TestRedoTakesNoMoreThanItIsFor(t *testing.T) {
	t.Parallel()
	r, _ := newRedo(t)
	long := bytes.NewReader(make([]byte, 8*redoPage-redoHeader))
	if _, err := r.take(1, long, 0); !errors.Is(err, errLong) {
		t.Errorf("a record of a whole half: %v", err)
	}
	if n, err := r.take(1, long, 1); err != nil || n != 8*redoPage-redoHeader-1 {
		t.Errorf("one byte less: %d, %v", n, err)
	}
	if _, err := r.take(2, bytes.NewReader([]byte("x")), 0); !errors.Is(err, errLong) {
		t.Errorf("one more: %v", err)
	}
	if n, err := r.take(2, bytes.NewReader(nil), 0); n != 0 || len(r.pending) != 8*redoPage {
		t.Errorf("nothing more: %d, %v, %d bytes pending", n, err, len(r.pending))
	}
}

func TestRestoreRefusesFilesOfAnotherRun(t *testing.T) {
	t.Parallel()
	r, path := newRedo(t)
	put(t, r, 3, 0, "begin")
	put(t, r, 2, 100, "goes on")
	for name, other := range map[string]func(blocks string) error{
		"no such block":   func(string) error { return nil },
		"a shorter block": func(blocks string) error { return os.WriteFile(blockPath(blocks, 2), make([]byte, 99), 0o600) },
		"no such folder":  func(blocks string) error { return os.Remove(blocks) },
	} {
		blocks := t.TempDir()
		if err := other(blocks); err != nil {
			t.Fatal(err)
		}
		if err := restore(path, blocks, syncFile); err == nil || name != "no such folder" && !errors.Is(err, ErrRedo) {
			t.Errorf("%s: %v", name, err)
		}
	}
	blocks := t.TempDir()
	if err := os.WriteFile(blockPath(blocks, 2), make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // as often as anybody likes
		if err := restore(path, blocks, syncFile); err != nil {
			t.Fatal(err)
		}
	}
	if got := contents(t, blockPath(blocks, 3)); string(got) != "begin" {
		t.Errorf("block 3: %q", got)
	}
	if got := contents(t, blockPath(blocks, 2)); string(got[100:]) != "goes on" {
		t.Errorf("block 2: %q", got)
	}
}

// What was restored is durable before the redo file is emptied, as it is then, also
// where the server was only killed and the blocks have it all.
func TestRestoredBlocksAreSynced(t *testing.T) {
	t.Parallel()
	r, path := newRedo(t)
	put(t, r, 2, 5, "goes on")
	put(t, r, 3, 0, "begin")
	blocks := t.TempDir()
	if err := os.WriteFile(blockPath(blocks, 2), []byte("block"), 0o600); err != nil {
		t.Fatal(err)
	}
	durable := map[string]string{}
	err := restore(path, blocks, func(path string) error {
		if path == blocks {
			durable[path] = "names"
			return nil
		}
		durable[path] = string(contents(t, path))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{blockPath(blocks, 2): "blockgoes on", blockPath(blocks, 3): "begin", blocks: "names"}
	if !maps.Equal(durable, want) {
		t.Errorf("synced is %q, want %q", durable, want)
	}
	failed := errors.New("the disk failed")
	for at := range want {
		if err := restore(path, blocks, func(path string) error {
			if path == at {
				return failed
			}
			return nil
		}); !errors.Is(err, failed) {
			t.Errorf("%s can't be synced: %v", at, err)
		}
	}
}

// A redo file is restored once: the server gives other bytes to the places that an
// unfinished message had.
func TestRestoreEmptiesTheRedoFile(t *testing.T) {
	t.Parallel()
	dir, store := t.TempDir(), t.TempDir()
	path := filepath.Join(dir, "LEDGER")
	r, err := openRedo(path, redoHalf, syncFile)
	if err != nil {
		t.Fatal(err)
	}
	put(t, r, 1, 0, "begin")
	if err := errors.Join(r.file.Close(), os.MkdirAll(blocksOf(store, "LEDGER"), 0o700), restoreAll(dir, store)); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, blockPath(blocksOf(store, "LEDGER"), 1)); string(got) != "begin" {
		t.Errorf("block 1: %q", got)
	}
	if left := readRedo(contents(t, path)); len(left) > 0 {
		t.Errorf("%d records are left", len(left))
	}
}

func FuzzRedo(f *testing.F) {
	r, path := newRedo(f)
	for i := range 10 {
		put(f, r, i, int64(i), "seed")
	}
	f.Add(contents(f, path))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, r := range readRedo(data) {
			if len(r.data)+redoHeader > len(data) {
				t.Errorf("a record of %d bytes in %d", len(r.data), len(data))
			}
		}
	})
}
