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

// saveSecrets copies every secret of a data folder into dir, and notes their checksums. A
// crash before the note leaves secrets that Check does not compare.
func saveSecrets(done *Done, from, dir string) error {
	if err := copySecrets(done, from, dir); err != nil {
		return err
	}
	names, err := secretsIn(dir)
	if err != nil {
		return err
	}
	_, err = noteFiles(dir, secretsNoteName, names)
	return err
}

// secretsIn returns the names of the secrets in a folder, which holds a file for each.
func secretsIn(dir string) (names []string, err error) {
	files, err := os.ReadDir(dir)
	for _, file := range files {
		if file.Type().IsRegular() && file.Name() != secretsNoteName {
			names = append(names, file.Name())
		}
	}
	return names, err
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

// copySecrets copies every secret from one folder to another. A secret that exists in the
// target must equal the copy: it is never replaced, because the data that it protects would
// be lost.
func copySecrets(done *Done, from, to string) error {
	names, err := secretsIn(from)
	if err != nil {
		return err
	}
	if err := datadir.MakeFolder(to); err != nil {
		return err
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		there, err := os.ReadFile(target)
		switch {
		case errors.Is(err, os.ErrNotExist):
			err = datadir.WriteFile(target, content, 0o600)
		case err == nil && !bytes.Equal(there, content):
			err = fmt.Errorf("%s is another one: %w", target, ErrNotEmpty)
		}
		if err != nil {
			return err
		}
		done.Messages++
		done.Bytes += int64(len(content))
	}
	return nil
}
