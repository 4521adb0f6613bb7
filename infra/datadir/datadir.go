package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

const (
	lockName    = "ledger.lock"
	readmeName  = "README"
	secretsName = "secrets"
	runName     = "run.json"
)

const readme = `This folder belongs to Memory Ledger: its event log, its database and its keys.
Whoever deletes it deletes every memory that was written here.
`

// Dir is an open, locked data folder. Its methods are safe for concurrent use.
type Dir struct {
	path string
	lock *FileLock
	mu   sync.Mutex // one secret or run note is written at a time
}

// Open creates the folder at path if need be (mode 0700) and takes its lock.
// If another instance uses the folder, the error is a *LockedError, matched by ErrLocked.
// Open removes the unfinished files of an earlier, killed run.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := MakeFolder(path); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	empty, err := isEmpty(path)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	lock, err := Lock(filepath.Join(path, lockName))
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, lock: lock}
	if err := d.prepare(empty); err != nil {
		return nil, errors.Join(fmt.Errorf("data folder %s: %w", path, err), lock.Release())
	}
	return d, nil
}

// prepare runs under the lock. A crash in prepare leaves a folder that the next
// Open completes in the same way. Only the README may be missing then.
func (d *Dir) prepare(empty bool) error {
	name := filepath.Join(d.path, readmeName)
	if empty {
		if err := WriteFile(name, []byte(readme), 0o600); err != nil {
			return err
		}
	}
	if _, err := d.Sub(secretsName); err != nil {
		return err
	}
	// A secret is only as durable as the names of the folders that lead to it.
	if err := SyncDir(d.path); err != nil {
		return err
	}
	stale := os.Remove(filepath.Join(d.path, runName))
	if errors.Is(stale, os.ErrNotExist) {
		stale = nil
	}
	return errors.Join(stale, removeUnfinished(d.path), removeUnfinished(filepath.Join(d.path, secretsName)))
}

// Path is the absolute path of the folder.
func (d *Dir) Path() string { return d.path }

// Sub returns the path of a folder in the data folder, creating it (mode 0700).
func (d *Dir) Sub(name string) (string, error) {
	path := filepath.Join(d.path, name)
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("data folder: %w", err)
	}
	return path, nil
}

// Close removes the run note and releases the folder.
func (d *Dir) Close() error {
	return errors.Join(d.ClearRun(), d.lock.Release())
}

func isEmpty(path string) (bool, error) {
	entries, err := os.ReadDir(path)
	return len(entries) == 0, err
}
