package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localchain"
)

// chainNote is what the copy of a chain says of itself. It is written last.
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

// SaveChain copies what the local chain of a data folder has saved into dir, which
// must be new or empty, also while the chain runs. Copied after the log, it holds
// every commit that the copied log calls confirmed. A failure leaves nothing, a
// crash a folder without chain.json, which PutChain refuses.
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
	text, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	return datadir.WriteFile(filepath.Join(dir, chainNoteName), append(text, '\n'), 0o600)
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

// checkChain reads the copy of a chain, every byte of it.
func checkChain(dir string) (chainNote, error) {
	var n chainNote
	if err := readNote(dir, chainNoteName, &n); err != nil {
		return n, err
	}
	for _, name := range chainFiles {
		is, err := noteOf(filepath.Join(dir, name))
		if err != nil {
			return n, err
		}
		if is != n.Files[name] {
			return n, fmt.Errorf("%w: %s is not what was written", ErrIncomplete, filepath.Join(dir, name))
		}
	}
	return n, nil
}

// PutChain puts the copy of a chain into the folder of one that does not run. A
// folder that has a chain must have that very state, as after an interrupted
// restore. A crash leaves no chain; the next PutChain begins again.
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
