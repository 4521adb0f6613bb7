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

// SaveChain copies the saved state of a data folder's local chain into dir, which must be
// new or empty. The chain may be running. A chain that is copied after the log holds
// every commit that the copied log calls confirmed. A failure leaves nothing. A crash
// leaves a folder without chain.json, which PutChain refuses.
func SaveChain(from, dir string) (Done, error) {
	if err := newFolder(dir); err != nil {
		return Done{}, fmt.Errorf("back up %s: %w", Chain, err)
	}
	var noted map[string]fileNote
	err := localchain.Copy(from, dir)
	if err == nil {
		noted, err = noteFiles(dir, chainNoteName, chainFiles)
	}
	if err != nil {
		return Done{}, errors.Join(fmt.Errorf("back up %s: %w", Chain, err), Remove(dir))
	}
	return doneChain(noted), nil
}

func doneChain(noted map[string]fileNote) Done {
	done := Done{Part: Chain, Messages: uint64(len(noted))}
	for _, file := range noted {
		done.Bytes += file.Bytes
	}
	return done
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

// PutChain puts the copy of a chain into the folder of a chain that is not running. If
// the folder already holds a chain, its state must equal the copy, as after an
// interrupted restore. A crash leaves no chain; the next PutChain begins again.
func PutChain(dir, to string) (Done, error) {
	noted, err := checkChain(dir)
	if err == nil {
		err = putChain(dir, to, noted[localchain.StateName])
	}
	if err != nil {
		return Done{}, fmt.Errorf("restore %s: %w", Chain, err)
	}
	return doneChain(noted), nil
}

func putChain(dir, to string, state fileNote) error {
	if err := datadir.MakeFolder(to); err != nil {
		return err
	}
	there, err := noteOf(filepath.Join(to, localchain.StateName))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return localchain.Copy(dir, to)
	case err == nil && there != state:
		return fmt.Errorf("%s is of another chain, or of another moment: %w", filepath.Join(to, localchain.StateName), ErrNotEmpty)
	}
	return err
}
