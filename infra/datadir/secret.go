package datadir

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// ErrNoSecret says that a secret was never generated in this folder.
var ErrNoSecret = errors.New("no such secret")

var secretName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)

// Secret returns the secret of that name, n bytes long, generating it on first
// use. A fresh secret is on the disk before it is returned, so that nothing is
// ever sealed under a key that a power cut can take away.
//
// A malformed file, or one of another length, is an error and is never replaced:
// everything that it protects would be lost for good.
func (d *Dir) Secret(name string, n int) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	secret, err := LoadSecret(d.path, name, n)
	if !errors.Is(err, ErrNoSecret) {
		return secret, err
	}
	secret = make([]byte, n)
	rand.Read(secret) // never fails: it ends the program instead
	text := base64.StdEncoding.EncodeToString(secret) + "\n"
	if err := WriteFile(filepath.Join(d.path, secretsName, name), []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	return secret, nil
}

// Replace puts a secret in another one's place. The one that was there is kept under the
// name kept first. A crash leaves both where they were, maybe with that copy.
func (d *Dir) Replace(name, by, kept string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	folder := filepath.Join(d.path, secretsName)
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err == nil {
		err = WriteFile(filepath.Join(folder, kept), text, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(folder, by), filepath.Join(folder, name))
	}
	if err == nil {
		err = SyncDir(folder)
	}
	if err != nil {
		return fmt.Errorf("secret %s: %w", name, err)
	}
	return nil
}

// LoadSecret reads a secret of the data folder at path without its lock, as a
// command beside the running instance does. It returns ErrNoSecret if there is none.
func LoadSecret(path, name string, n int) ([]byte, error) {
	if !secretName.MatchString(name) {
		return nil, fmt.Errorf("secret %q: not a valid name", name)
	}
	if n < 1 {
		return nil, fmt.Errorf("secret %s: %d bytes asked for", name, n)
	}
	file := filepath.Join(path, secretsName, name)
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("secret %s: %w", name, ErrNoSecret)
	}
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", name, err)
	}
	// The decoder's own error would quote a byte of the secret; leave it out.
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(secret) != n {
		return nil, fmt.Errorf("secret %s: %s does not hold %d bytes of base64; put the right file back", name, file, n)
	}
	return secret, nil
}
