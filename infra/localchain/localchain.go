// Package localchain runs a Solana chain on this machine: the Agave runtime
// (LiteSVM) behind JSON-RPC, with its state in a folder. It enforces what a validator
// enforces. A local run and the tests anchor to it, and the code that talks to it
// cannot tell it from a cluster.
//
// The server is JavaScript inside this package. Its modules, and Node where the machine
// has none that is new enough, are fetched into a cache folder on first use. If that
// fails, Start returns an error that wraps ErrUnavailable, and the caller may go on
// without a chain.
//
// The chain processes a transaction at once. It saves each slot that changed something
// before it confirms the slot's transactions, so kill -9 loses nothing confirmed. A
// transaction that is only processed may be lost, as on a fork.
package localchain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/npm"
)

// lockName is the lock file of a data folder.
const lockName = "lock"

// ErrUnavailable says that this machine cannot run a local chain. Every such error wraps
// it. No error of a chain that started wraps it.
var ErrUnavailable = errors.New("no local chain on this machine")

// Program is an on-chain program deployed, or replaced, at every start.
type Program struct {
	ID  string // base58
	ELF []byte
}

// Config says how to run a chain. DataDir is required.
type Config struct {
	// DataDir keeps the chain's state. One chain at a time runs in it.
	DataDir string
	// Addr is the address to listen on; default 127.0.0.1:0, a free port.
	Addr string
	// SlotTime is how long a slot lasts; default 400 ms.
	SlotTime time.Duration
	// ManualSlots stops the clock: slots pass only by Advance. Needs Faults.
	ManualSlots bool
	// Programs to deploy.
	Programs []Program
	// Faults allows the _fault method, for tests.
	Faults bool
	// Log receives the output of the server; default none.
	Log io.Writer
	// OnFetch is told the progress of what is fetched; default none.
	OnFetch func(npm.Progress)
}

func (c *Config) setDefaults() {
	if c.Addr == "" {
		c.Addr = "127.0.0.1:0"
	}
	if c.SlotTime == 0 {
		c.SlotTime = 400 * time.Millisecond
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
}

// Chain is a running chain.
type Chain struct {
	process     *child.Process
	url         string
	genesisHash string
}

// Start runs a chain and returns when it answers. ctx bounds the start only;
// the chain runs until Stop or Kill, or until this process ends. The error
// matches datadir.ErrLocked if another chain runs in the folder.
func Start(ctx context.Context, cfg Config) (*Chain, error) {
	cfg.setDefaults()
	node, server, err := install(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("local chain: %w", err)
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("local chain: %w", err)
	}
	// A server whose parent was just killed needs a moment to save its state.
	lock, err := datadir.LockWithin(ctx, filepath.Join(cfg.DataDir, lockName), 5*time.Second)
	if err != nil {
		return nil, fmt.Errorf("local chain: %w", err)
	}
	defer lock.Release() // the server has inherited it
	args, err := arguments(server, cfg)
	if err != nil {
		return nil, fmt.Errorf("local chain: %w", err)
	}
	c, err := launch(ctx, node, args, lock, cfg)
	if err != nil {
		return nil, fmt.Errorf("local chain: %w", err)
	}
	return c, nil
}

// arguments writes the programs beside the state and returns the server's command line.
func arguments(server string, cfg Config) ([]string, error) {
	slotMS := cfg.SlotTime.Milliseconds()
	if cfg.ManualSlots {
		slotMS = 0
	}
	args := []string{
		server,
		"--data", cfg.DataDir,
		"--addr", cfg.Addr,
		"--slot-ms", strconv.FormatInt(slotMS, 10),
	}
	for _, p := range cfg.Programs {
		file := filepath.Join(cfg.DataDir, p.ID+".so")
		if err := os.WriteFile(file, p.ELF, 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--program", p.ID+"="+file)
	}
	if cfg.Faults {
		args = append(args, "--faults")
	}
	return args, nil
}

// URL is the JSON-RPC endpoint.
func (c *Chain) URL() string { return c.url }

// GenesisHash identifies this chain. Fault reset changes it.
func (c *Chain) GenesisHash() string { return c.genesisHash }

// PID is the server's process id.
func (c *Chain) PID() int { return c.process.PID() }

// Done is closed when the server has ended, by Stop or otherwise.
func (c *Chain) Done() <-chan struct{} { return c.process.Done() }

// Stop lets the server save its state and waits until the server has ended. If ctx ends
// first, Stop kills the server and returns child.ErrForced. Then the chain loses at
// most transactions that were processed but not confirmed.
func (c *Chain) Stop(ctx context.Context) error {
	err := c.process.Stop(ctx, syscall.SIGTERM)
	if err == nil {
		err = c.process.Err()
	}
	if err != nil {
		return fmt.Errorf("local chain: %w", err)
	}
	return nil
}

// Kill ends the server at once, as a power cut would, and waits until it has ended.
func (c *Chain) Kill() error { return c.process.Kill() }
