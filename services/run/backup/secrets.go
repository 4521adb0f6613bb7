package backup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/memory-ledger/ledger/infra/datadir"
)

// secretsNoteName is the file of a backup that has the sizes and the SHA-256 of the secrets,
// which are random and so can't be guessed from it.
const secretsNoteName = "secrets.json"

// SaveSecrets copies every secret of a data folder into dir, and notes their checksums. A
// crash before the note leaves secrets that CheckSecrets does not check.
func SaveSecrets(from, dir string) (Done, error) {
	done, err := CopySecrets(from, dir)
	if err != nil {
		return done, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return done, fmt.Errorf("secrets: %w", err)
	}
	sums := map[string]fileNote{}
	for _, file := range files {
		if !file.Type().IsRegular() || file.Name() == secretsNoteName {
			continue
		}
		if sums[file.Name()], err = noteOf(filepath.Join(dir, file.Name())); err != nil {
			return done, fmt.Errorf("secrets: %w", err)
		}
	}
	if err := writeNote(dir, secretsNoteName, sums); err != nil {
		return done, fmt.Errorf("secrets: %w", err)
	}
	return done, nil
}

// checkSecrets compares the secrets of a backup with their checksums. Backups of earlier
// builds have none.
func checkSecrets(dir string) error {
	sums := map[string]fileNote{}
	if _, err := os.Stat(filepath.Join(dir, secretsNoteName)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := readNote(dir, secretsNoteName, &sums); err != nil {
		return err
	}
	return checkFiles(dir, sums)
}

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
		if !file.Type().IsRegular() || file.Name() == secretsNoteName {
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
