package localpostgres

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"regexp"

	"github.com/memory-ledger/ledger/infra/datadir"
)

var passwordPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{32,}$`)

// password returns the TCP password of the folder, generated on first use.
func password(dir string) (string, error) {
	file := filepath.Join(dir, passwordName)
	text, err := os.ReadFile(file)
	if err == nil && passwordPattern.Match(text) {
		return string(text), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	secret := make([]byte, 32)
	rand.Read(secret) // never fails: it ends the program instead
	fresh := base64.RawURLEncoding.EncodeToString(secret)
	return fresh, datadir.WriteFile(file, []byte(fresh), 0o600)
}
