package localchain

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// readyLine is what the server prints once it answers.
type readyLine struct {
	Ready       bool   `json:"ready"`
	URL         string `json:"url"`
	GenesisHash string `json:"genesisHash"`
}

// launch starts the server and waits for its ready line. The server follows this
// process in two ways: its standard input ends when this process does, and where
// the system can, it gets a signal when its parent dies.
func launch(ctx context.Context, node string, args []string, lock *os.File, cfg Config) (*Chain, error) {
	cmd := exec.Command(node, args...)
	cmd.ExtraFiles = []*os.File{lock}
	var complaint tail
	cmd.Stderr = io.MultiWriter(cfg.Log, &complaint)
	cmd.SysProcAttr = followParent()
	// A proxy or option meant for other programs must not bend this one.
	cmd.Env = append(os.Environ(), "NODE_OPTIONS=", "NODE_ENV=production")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c := &Chain{stdin: stdin, done: make(chan struct{})}
	ready := make(chan readyLine, 1)
	started := make(chan error, 1)
	go c.keep(cmd, stdout, started, ready)
	if err := <-started; err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.ReadyTimeout)
	defer cancel()
	select {
	case line := <-ready:
		c.url, c.genesisHash = line.URL, line.GenesisHash
		return c, nil
	case <-c.done:
		return nil, fmt.Errorf("the server ended before it was ready (%v): %s", c.exit, complaint.String())
	case <-ctx.Done():
		c.Kill()
		return nil, fmt.Errorf("the server was not ready in time: %w", ctx.Err())
	}
}

// tail keeps the end of what was written to it. It is read once its writer, the
// process, is gone.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 2048
	t.text = append(t.text, p...)
	if len(t.text) > most {
		t.text = t.text[len(t.text)-most:]
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(string(t.text)) }

// keep starts the process and stays with it to its end, on one thread: a parent
// death signal is sent when the thread that started the child ends, not the
// process, so that thread is held for as long as the child lives.
func (c *Chain) keep(cmd *exec.Cmd, stdout io.Reader, started chan<- error, ready chan<- readyLine) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	c.process = cmd.Process
	started <- nil
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var line readyLine
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Ready {
			ready <- line
			break
		}
	}
	_, _ = io.Copy(io.Discard, stdout)
	c.exit = cmd.Wait()
	close(c.done)
}

// lockFolder locks a folder. If another process holds the lock, it waits for as long
// as patience and ctx last.
func lockFolder(ctx context.Context, folder string, patience time.Duration) (*os.File, error) {
	const pause = 50 * time.Millisecond
	for deadline := time.Now().Add(patience); ; {
		f, err := tryLock(folder)
		if !errors.Is(err, ErrLocked) || time.Now().After(deadline) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}
