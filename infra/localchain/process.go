package localchain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/datadir"
)

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
func launch(ctx context.Context, node string, args []string, lock *datadir.FileLock, cfg Config) (*Chain, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute) // only a machine that is overloaded needs them
	defer cancel()
	cmd := exec.Command(node, args...)
	lock.Inherit(cmd)
	// NODE_OPTIONS may hold options that are meant for other programs.
	cmd.Env = append(os.Environ(), "NODE_OPTIONS=", "NODE_ENV=production")
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
