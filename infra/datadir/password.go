package datadir

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"regexp"
)

var passwordPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{32,}$`)

// PasswordFile returns the password in the file at path, generated on first use
// (mode 0600, on the disk before it is returned). The password needs no escaping in a
// URL or a quoted string. A damaged file is replaced: unlike a key, a password protects
// nothing that the next password could not open.
func PasswordFile(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err == nil && passwordPattern.Match(text) {
		return string(text), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("password: %w", err)
	}
	secret := make([]byte, 32)
	rand.Read(secret) // never fails: it ends the program instead
	fresh := base64.RawURLEncoding.EncodeToString(secret)
	return fresh, WriteFile(path, []byte(fresh), 0o600)
}
