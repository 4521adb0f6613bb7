package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localchain"
)

// chainNote describes the copy of a chain. It is written last.
type chainNote struct {
	GenesisHash  string              `json:"genesisHash"`
	Slot         uint64              `json:"slot"`
	Transactions uint64              `json:"transactions"`
	Files        map[string]fileNote `json:"files"` // by name
	Taken        time.Time           `json:"taken"`
}

type fileNote struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

const chainNoteName = "chain.json"

var chainFiles = []string{localchain.StateName, localchain.TransactionsName}

// SaveChain copies the saved state of a data folder's local chain into dir, which must be
// new or empty. The chain may be running. A chain that is copied after the log holds
// every commit that the copied log calls confirmed. A failure leaves nothing. A crash
// leaves a folder without chain.json, which PutChain refuses.
func SaveChain(from, dir string) (Done, error) {
	done := Done{Part: Chain}
	if err := newFolder(dir); err != nil {
		return done, fmt.Errorf("back up %s: %w", Chain, err)
	}
	saved, err := localchain.Copy(from, dir)
	if err == nil {
		err = writeChainNote(dir, saved)
	}
	if err != nil {
		return done, errors.Join(fmt.Errorf("back up %s: %w", Chain, err), Remove(dir))
	}
	done.Messages, done.Bytes = saved.Transactions, saved.Bytes
	return done, nil
}

func writeChainNote(dir string, saved localchain.Saved) error {
	n := chainNote{GenesisHash: saved.GenesisHash, Slot: saved.Slot, Transactions: saved.Transactions, Files: map[string]fileNote{}, Taken: time.Now().UTC()}
	for _, name := range chainFiles {
		var err error
		if n.Files[name], err = noteOf(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return writeNote(dir, chainNoteName, n)
}

func noteOf(path string) (fileNote, error) {
	file, err := os.Open(path)
	if err != nil {
		return fileNote{}, err
	}
	defer file.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	return fileNote{size, hex.EncodeToString(hash.Sum(nil))}, err
}

// checkChain checks every byte of a chain's copy.
func checkChain(dir string) (chainNote, error) {
	var n chainNote
	if err := readNote(dir, chainNoteName, &n); err != nil {
		return n, err
	}
	noted := map[string]fileNote{} // both files, whatever the note names
	for _, name := range chainFiles {
		noted[name] = n.Files[name]
	}
	return n, checkFiles(dir, noted)
}

// PutChain puts the copy of a chain into the folder of a chain that is not running. If
// the folder already holds a chain, its state must equal the copy, as after an
// interrupted restore. A crash leaves no chain; the next PutChain begins again.
func PutChain(dir, to string) (Done, error) {
	done := Done{Part: Chain}
	n, err := checkChain(dir)
	if err == nil {
		err = putChain(dir, to, n)
	}
	if err != nil {
		return done, fmt.Errorf("restore %s: %w", Chain, err)
	}
	done.Messages = n.Transactions
	for _, file := range n.Files {
		done.Bytes += file.Bytes
	}
	return done, nil
}

func putChain(dir, to string, n chainNote) error {
	if err := datadir.MakeFolder(to); err != nil {
		return err
	}
	there, err := noteOf(filepath.Join(to, localchain.StateName))
	switch {
	case errors.Is(err, os.ErrNotExist):
		_, err = localchain.Copy(dir, to)
		return err
	case err == nil && there != n.Files[localchain.StateName]:
		return fmt.Errorf("%s is of another chain, or of another moment: %w", filepath.Join(to, localchain.StateName), ErrNotEmpty)
	}
	return err
}
