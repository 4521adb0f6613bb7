package backup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/memory-ledger/ledger/infra/datadir"
)

// CopySecrets copies every secret from one folder to another. Both hold one file for each
// secret. A secret that exists in the target must equal the copy: it is never replaced,
// because the data that it protects would be lost. The result counts the secrets.
func CopySecrets(from, to string) (Done, error) {
	done := Done{Part: Secrets}
	files, err := os.ReadDir(from)
	if err != nil {
		return done, fmt.Errorf("secrets: %w", err)
	}
	if err := datadir.MakeFolder(to); err != nil {
		return done, fmt.Errorf("secrets: %w", err)
	}
	for _, file := range files {
		if !file.Type().IsRegular() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, file.Name()))
		if err != nil {
			return done, fmt.Errorf("secrets: %w", err)
		}
		target := filepath.Join(to, file.Name())
		there, err := os.ReadFile(target)
		switch {
		case errors.Is(err, os.ErrNotExist):
			err = datadir.WriteFile(target, content, 0o600)
		case err == nil && !bytes.Equal(there, content):
			err = fmt.Errorf("%s is another one: %w", target, ErrNotEmpty)
		}
		if err != nil {
			return done, fmt.Errorf("secrets: %w", err)
		}
		done.Messages++
		done.Bytes += int64(len(content))
	}
	return done, nil
}
