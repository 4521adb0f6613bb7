package memoryledger

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
)

// FileHeads is a HeadStore in a JSON file, for programs that run repeatedly or several at a
// time. A crash during Replace leaves either the old file or the new one. A second file,
// with .lock after the name, holds the lock.
type FileHeads string

// Load implements HeadStore.
func (f FileHeads) Load(_ context.Context, owner string) (*SeenHead, error) {
	all, err := f.read()
	if head, found := all[owner]; found {
		return &head, nil
	}
	return nil, err
}

// Replace implements HeadStore.
func (f FileHeads) Replace(_ context.Context, owner string, old *SeenHead, head SeenHead) (bool, error) {
	// The heads' file is replaced as a whole, so another file is locked.
	guard, err := os.OpenFile(string(f)+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return false, err
	}
	defer guard.Close() // ends the lock, as the end of the process does
	if err := lockFile(guard); err != nil {
		return false, err
	}
	all, err := f.read()
	if err != nil {
		return false, err
	}
	var stored *SeenHead
	if known, found := all[owner]; found {
		stored = &known
	}
	if !stored.Equal(old) {
		return false, nil
	}
	all[owner] = head
	return true, f.write(all)
}

func (f FileHeads) write(all map[string]SeenHead) error {
	text, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(string(f)), filepath.Base(string(f))+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // fails after the rename
	_, err = file.Write(text)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), string(f))
}

func (f FileHeads) read() (map[string]SeenHead, error) {
	all := map[string]SeenHead{}
	text, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	return all, err
}
