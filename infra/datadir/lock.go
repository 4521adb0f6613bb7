package datadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// ErrLocked is matched by every error for a folder that another instance holds. The error
// names the folder and, if known, the process.
var ErrLocked = errors.New("is in use")

// FileLock is an exclusive lock on a file, held until Release or the end of
// the process, whichever comes first.
type FileLock struct{ f *os.File }

// Lock takes the exclusive lock of the file at path, creating it with mode
// 0600. If the lock is held elsewhere, in this process or another, the error matches
// ErrLocked.
//
// The file is never removed: removing a lock file lets two processes lock two
// different files of one name.
func Lock(path string) (*FileLock, error) {
	// This is how long Lock tries. Held keeps the lock for an instant, and Lock must wait
	// longer than that. A person does not notice the wait.
	return LockWithin(context.Background(), path, 250*time.Millisecond)
}

// LockWithin is Lock with a different limit on the wait. It gives up when ctx ends.
func LockWithin(ctx context.Context, path string, patience time.Duration) (*FileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err = flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(deadline) || ctx.Err() != nil {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		held := fmt.Errorf("%s %w by %s: stop it first, or choose another folder", filepath.Dir(path), ErrLocked, holder(f))
		return nil, errors.Join(held, f.Close())
	}
	if err == nil {
		err = writePID(f, os.Getpid())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return &FileLock{f: f}, nil
}

// Release releases the lock by closing the file. It wipes the pid first, so that no
// error names a process that has ended.
func (l *FileLock) Release() error {
	return errors.Join(l.f.Truncate(0), l.f.Close())
}

// Inherit gives cmd a copy of the lock. The lock lasts until both copies are released:
// ours by Release, and the copy of cmd by the end of its process.
func (l *FileLock) Inherit(cmd *exec.Cmd) { cmd.ExtraFiles = append(cmd.ExtraFiles, l.f) }

// Held reports whether some process holds the lock of the file at path. It takes a shared
// lock for an instant. Lock waits longer than that.
func Held(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("probe lock: %w", err)
	}
	defer f.Close() // releases the shared lock, if we got it
	err = flock(f, syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("probe lock %s: %w", path, err)
	}
	return false, nil
}

// flock retries after the interruptions that Go's own preemption signals cause.
func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// holder names the process that holds a lock, as far as it has written its pid yet.
func holder(f *os.File) string {
	var pid int
	if _, err := fmt.Fscan(io.NewSectionReader(f, 0, 32), &pid); err != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

func writePID(f *os.File, pid int) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0)
	return err
}
