package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// tempPattern names files that are being written; a crash leaves at most one
// of them, and the next Open removes it.
const tempPattern = ".writing-*"

// WriteFile replaces the file at path with data, completely or not at all. A reader sees
// the old content or the new content, never a part. The same holds after a power cut.
// When WriteFile returns nil, both the bytes and the name are on the disk. WriteFile
// does not replace a device or a folder.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("write %s: it is there, and no file", path)
	}
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, tempPattern) // mode 0600 from the first byte
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	err = errors.Join(fill(tmp, data, perm), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(tmp.Name()))
	}
	// The new file is already visible. Until the folder is synced, a power cut may bring
	// the old file back, so the caller must know of a failure here.
	if err := SyncDir(dir); err != nil {
		return fmt.Errorf("write %s: sync its folder: %w", path, err)
	}
	return nil
}

func fill(f *os.File, data []byte, perm os.FileMode) error {
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Chmod(perm); err != nil {
		return err
	}
	return f.Sync()
}

// SyncDir makes the names in a folder durable.
func SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// MakeFolder makes a folder and the missing folders above it, mode 0700. When it
// returns nil, their names are on the disk: a file is only as durable as the names of
// its folders. An existing folder is left alone. A folder above that we may not read
// is not synced, because a sync needs the right to read.
func MakeFolder(path string) error {
	path = filepath.Clean(path) // without this, the parent of "a/" would be "a"
	parent := filepath.Dir(path)
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, os.ErrNotExist) {
		if err = MakeFolder(parent); err == nil {
			err = os.Mkdir(path, 0o700)
		}
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := SyncDir(parent); err != nil && !errors.Is(err, os.ErrPermission) {
		return err
	}
	return nil
}

func removeUnfinished(dir string) error {
	left, err := fs.Glob(os.DirFS(dir), tempPattern)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range left {
		errs = append(errs, os.Remove(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}
