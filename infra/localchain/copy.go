package localchain

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/memory-ledger/ledger/infra/datadir"
)

// StateName and TransactionsName are the files that hold a chain; see server/store.js.
// Each start makes the other files of the folder again.
const (
	StateName        = "state"
	TransactionsName = "transactions"

	stateMagic = "memory-ledger-localchain/1\n"
)

// ErrNoState says that no chain was ever saved in a folder.
var ErrNoState = errors.New("no chain was saved there")

// ErrState says that a folder does not hold the whole saved state of a chain.
var ErrState = errors.New("not the whole state of a local chain")

// Copy copies a chain's saved state into another folder, which must exist and hold
// no state. The chain may run meanwhile: the copy is of one moment after the call, and
// holds every transaction that was confirmed before the call.
//
// Copy needs no lock. The state is one file that the chain replaces as a whole. The
// state says how much of the history belongs to it, and the history only grows.
//
// A crash leaves a history without a state. A chain that starts there drops the history.
func Copy(from, to string) error {
	state, err := os.ReadFile(filepath.Join(from, StateName))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("copy chain: %w: %s", ErrNoState, from)
	}
	if err != nil {
		return fmt.Errorf("copy chain: %w", err)
	}
	history, err := historyOf(state)
	if err != nil {
		return fmt.Errorf("copy chain %s: %w", from, err)
	}
	if _, err := os.Stat(filepath.Join(to, StateName)); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("copy chain: %s holds a chain: %w", to, errors.Join(os.ErrExist, err))
	}
	if err := copyHistory(from, to, history); err != nil {
		return fmt.Errorf("copy chain %s: %w", from, err)
	}
	return datadir.WriteFile(filepath.Join(to, StateName), state, 0o600)
}

// historyOf returns how many bytes of history belong to a state.
func historyOf(state []byte) (int64, error) {
	rest, ok := bytes.CutPrefix(state, []byte(stateMagic))
	if !ok || len(rest) < 4 {
		return 0, fmt.Errorf("%w: it does not begin as one", ErrState)
	}
	length := binary.LittleEndian.Uint32(rest)
	if rest = rest[4:]; uint64(length) > uint64(len(rest)) {
		return 0, fmt.Errorf("%w: it is cut off", ErrState)
	}
	var header struct {
		GenesisHash string `json:"genesisHash"`
		LogLength   int64  `json:"logLength"`
	}
	if err := json.Unmarshal(rest[:length], &header); err != nil || header.GenesisHash == "" || header.LogLength < 0 {
		return 0, fmt.Errorf("%w: its header is damaged", errors.Join(ErrState, err))
	}
	return header.LogLength, nil
}

// copyHistory copies length bytes of the history, which end with a transaction.
func copyHistory(from, to string, length int64) error {
	source, err := os.Open(filepath.Join(from, TransactionsName))
	if err != nil {
		return err
	}
	defer source.Close()
	last := []byte{'\n'}
	if length > 0 {
		_, err = source.ReadAt(last, length-1)
	}
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: its history is cut off", ErrState)
	case err != nil:
		return err
	case last[0] != '\n':
		return fmt.Errorf("%w: its history does not end with a transaction", ErrState)
	}
	target, err := os.OpenFile(filepath.Join(to, TransactionsName), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.CopyN(target, source, length); err == nil {
		err = target.Sync()
	}
	return errors.Join(err, target.Close())
}
