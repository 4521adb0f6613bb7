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

// Saved describes the saved state of a chain.
type Saved struct {
	GenesisHash  string // base58
	Slot         uint64 // newest
	Transactions uint64 // in its history
	Bytes        int64  // of both files
}

// Copy copies a chain's saved state into another folder, which must exist and hold
// no state. The chain may run meanwhile: the copy is of one moment after the call, and
// holds every transaction that was confirmed before the call.
//
// Copy needs no lock. The state is one file that the chain replaces as a whole. The
// state says how much of the history belongs to it, and the history only grows.
//
// A crash leaves a history without a state. A chain that starts there drops the history.
func Copy(from, to string) (Saved, error) {
	state, err := os.ReadFile(filepath.Join(from, StateName))
	if errors.Is(err, os.ErrNotExist) {
		return Saved{}, fmt.Errorf("copy chain: %w: %s", ErrNoState, from)
	}
	if err != nil {
		return Saved{}, fmt.Errorf("copy chain: %w", err)
	}
	saved, history, err := readHeader(state)
	if err != nil {
		return Saved{}, fmt.Errorf("copy chain %s: %w", from, err)
	}
	if _, err := os.Stat(filepath.Join(to, StateName)); !errors.Is(err, os.ErrNotExist) {
		return Saved{}, fmt.Errorf("copy chain: %s holds a chain: %w", to, errors.Join(os.ErrExist, err))
	}
	if saved.Transactions, err = copyHistory(from, to, history); err != nil {
		return Saved{}, fmt.Errorf("copy chain %s: %w", from, err)
	}
	return saved, datadir.WriteFile(filepath.Join(to, StateName), state, 0o600)
}

// readHeader returns a state's header, and how many bytes of history belong to it.
func readHeader(state []byte) (Saved, int64, error) {
	rest, ok := bytes.CutPrefix(state, []byte(stateMagic))
	if !ok || len(rest) < 4 {
		return Saved{}, 0, fmt.Errorf("%w: it does not begin as one", ErrState)
	}
	length := binary.LittleEndian.Uint32(rest)
	if rest = rest[4:]; uint64(length) > uint64(len(rest)) {
		return Saved{}, 0, fmt.Errorf("%w: it is cut off", ErrState)
	}
	var header struct {
		GenesisHash string `json:"genesisHash"`
		Slot        uint64 `json:"slot"`
		LogLength   int64  `json:"logLength"`
	}
	if err := json.Unmarshal(rest[:length], &header); err != nil || header.GenesisHash == "" || header.LogLength < 0 {
		return Saved{}, 0, fmt.Errorf("%w: its header is damaged", errors.Join(ErrState, err))
	}
	return Saved{GenesisHash: header.GenesisHash, Slot: header.Slot, Bytes: int64(len(state)) + header.LogLength}, header.LogLength, nil
}

// copyHistory copies length bytes of the history and counts the transactions in them.
func copyHistory(from, to string, length int64) (lines uint64, err error) {
	source, err := os.Open(filepath.Join(from, TransactionsName))
	if err != nil {
		return 0, err
	}
	defer source.Close()
	target, err := os.OpenFile(filepath.Join(to, TransactionsName), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	count := new(lineCounter)
	_, err = io.CopyN(io.MultiWriter(target, count), source, length)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: its history is cut off", ErrState)
	}
	if err == nil && length > 0 && count.last != '\n' {
		err = fmt.Errorf("%w: its history does not end with a transaction", ErrState)
	}
	if err == nil {
		err = target.Sync()
	}
	return count.lines, errors.Join(err, target.Close())
}

// lineCounter counts the lines that are written to it.
type lineCounter struct {
	lines uint64
	last  byte
}

func (c *lineCounter) Write(p []byte) (int, error) {
	c.lines += uint64(bytes.Count(p, []byte{'\n'}))
	if len(p) > 0 {
		c.last = p[len(p)-1]
	}
	return len(p), nil
}
