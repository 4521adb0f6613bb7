package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localchain"
)

// chainNoteName is the file of a backup that has the sizes and the SHA-256 of the chain's
// files. It is written last.
const chainNoteName = "chain.json"

var chainFiles = []string{localchain.StateName, localchain.TransactionsName}

// copyChain copies the saved state of a data folder's local chain. A chain that is copied
// after the log holds every commit that the copied log calls confirmed.
func copyChain(done *Done, from, dir string) error {
	if err := localchain.Copy(from, dir); err != nil {
		return err
	}
	noted, err := noteFiles(dir, chainNoteName, chainFiles)
	done.count(noted)
	return err
}

// checkChain checks every byte of a chain's copy.
func checkChain(dir string) (map[string]fileNote, error) {
	var read map[string]fileNote
	if err := readNote(dir, chainNoteName, &read); err != nil {
		return nil, err
	}
	noted := map[string]fileNote{} // both files, whatever the note names
	for _, name := range chainFiles {
		noted[name] = read[name]
	}
	return noted, checkFiles(dir, noted)
}

// putChain puts the copy of a chain into the folder of a chain that is not running. If
// the folder already holds a chain, its state must equal the copy, as after an
// interrupted restore. A crash leaves no chain; the next putChain begins again.
func putChain(done *Done, dir, to string) error {
	noted, err := checkChain(dir)
	if err != nil {
		return err
	}
	done.count(noted)
	if err := datadir.MakeFolder(to); err != nil {
		return err
	}
	there, err := noteOf(filepath.Join(to, localchain.StateName))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return localchain.Copy(dir, to)
	case err == nil && there != noted[localchain.StateName]:
		return fmt.Errorf("%s is of another chain, or of another moment: %w", filepath.Join(to, localchain.StateName), ErrNotEmpty)
	}
	return err
}
