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
	"bytes"
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/node"
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
	// OnFetch gets lines for a person about what is fetched; default none.
	OnFetch func(line string)
}

func (c *Config) setDefaults() {
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:0")
	c.SlotTime = cmp.Or(c.SlotTime, 400*time.Millisecond)
	c.Log = cmp.Or(c.Log, io.Discard)
}

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
	node, modules, err := install(ctx, cfg)
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
	args, err := arguments(cfg, modules)
	if err != nil {
		return nil, fmt.Errorf("local chain: %w", err)
	}
	cmd := exec.Command(node, args...)
	// NODE_OPTIONS may hold options that are meant for other programs.
	cmd.Env = append(os.Environ(), "NODE_OPTIONS=", "NODE_ENV=production")
	lock.Inherit(cmd)
	c, err := launch(ctx, cmd, cfg)
	if err != nil {
		return nil, fmt.Errorf("local chain: %w", err)
	}
	return c, nil
}

// arguments writes the server's scripts and the programs beside the state, and returns the
// server's command line. The scripts have a package.json and a node_modules of their own, so
// that those of a project around the folder do not count.
func arguments(cfg Config, modules string) ([]string, error) {
	scripts := filepath.Join(cfg.DataDir, "server")
	if err := errors.Join(os.RemoveAll(scripts), os.CopyFS(cfg.DataDir, files), os.Symlink(modules, filepath.Join(scripts, "node_modules"))); err != nil {
		return nil, err
	}
	slotMS := cfg.SlotTime.Milliseconds()
	if cfg.ManualSlots {
		slotMS = 0
	}
	args := []string{
		filepath.Join(scripts, "server.js"),
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

// readyLine is the line that the server prints once it answers requests.
type readyLine struct {
	Ready       bool   `json:"ready"`
	URL         string `json:"url"`
	GenesisHash string `json:"genesisHash"`
}

// launch starts the server and waits for its ready line. The server inherits the
// folder's lock: the folder is free when both processes have ended. The server ends
// when this process ends: its standard input closes then, and on Linux it also gets a
// signal.
func launch(ctx context.Context, cmd *exec.Cmd, cfg Config) (*Chain, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute) // only a machine that is overloaded needs them
	defer cancel()
	ready := make(chan readyLine, 1)
	cmd.Stdout = child.NewLines(0, func(text string) {
		var line readyLine
		if json.Unmarshal([]byte(text), &line) == nil && line.Ready {
			ready <- line
		}
	})
	complaint := child.NewLines(20, nil)
	cmd.Stderr = io.MultiWriter(cfg.Log, complaint)
	if _, err := cmd.StdinPipe(); err != nil { // open until the server ends
		return nil, err
	}
	process, err := child.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return nil, err
	}
	select {
	case line := <-ready:
		return &Chain{process: process, url: line.URL, genesisHash: line.GenesisHash}, nil
	case <-process.Done():
		return nil, fmt.Errorf("the server ended before it was ready (%v): %s", process.Err(), complaint.Last())
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("the server was not ready in time: %w", ctx.Err()), process.Kill())
	}
}

type RPCError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *RPCError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// calls uses a new connection for each call. The chain's server closes a connection
// that was idle for five seconds. A call at that moment would fail with EOF, and the
// caller would not know whether the server got the call.
var calls = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Call makes one JSON-RPC call and decodes its result into result, unless result is nil.
func (c *Chain) Call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := calls.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer res.Body.Close()
	var reply struct {
		Result json.RawMessage
		Error  *RPCError
	}
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if reply.Error != nil {
		return fmt.Errorf("%s: %w", method, reply.Error)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(reply.Result, result)
}

// Fund airdrops as much as an account lacks to hold that many lamports.
func (c *Chain) Fund(ctx context.Context, address string, lamports uint64) error {
	var balance struct{ Value uint64 }
	processed := map[string]string{"commitment": "processed"}
	if err := c.Call(ctx, &balance, "getBalance", address, processed); err != nil {
		return err
	}
	if balance.Value >= lamports {
		return nil
	}
	return c.Call(ctx, nil, "requestAirdrop", address, lamports-balance.Value)
}

// Fault causes a failure, or another change: see package localchaintest. A chain accepts
// faults only if Config.Faults allowed them.
func (c *Chain) Fault(ctx context.Context, fault map[string]any) error {
	return c.Call(ctx, nil, "_fault", fault)
}

//go:embed server/*.json server/*.js
var files embed.FS

// Fetch brings what Start needs into the cache folder, if it is not there.
func Fetch(ctx context.Context, cfg Config) error {
	cfg.setDefaults()
	_, _, err := install(ctx, cfg)
	return err
}

// install finds or fetches Node and the modules, and returns the path of node and the folder
// of the modules.
func install(ctx context.Context, cfg Config) (program, modules string, err error) {
	cache := npm.CacheFolder()
	lock, err := files.ReadFile("server/package-lock.json")
	if err != nil {
		return "", "", err
	}
	folder, err := npm.Fetch(ctx, cache, npm.Set{Name: "chain", What: "the local chain", Lock: lock, Finish: hasRuntime}, cfg.OnFetch)
	if err == nil {
		program, err = node.Program(ctx, cache, cfg.OnFetch)
	}
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return program, filepath.Join(folder, "node_modules"), nil
}

// hasRuntime refuses a fetched folder that lacks the runtime's native module: the lock file
// pins it only for the platforms whose package the registry served when it was made.
func hasRuntime(folder string) error {
	found, err := fs.Glob(os.DirFS(folder), "node_modules/litesvm-*")
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("the chain's runtime is not pinned for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	return err
}
