// Package child runs another program as a part of this process. The child ends when
// this process ends, for whatever reason. If the child ends on its own, this process
// is notified.
//
// The child gets its own process group, so that Ctrl-C in a terminal reaches only
// this process, and we decide the order in which processes stop. On Linux the kernel
// signals the child when this process dies, even by SIGKILL. On other systems a killed
// parent leaves its child behind, and the next process that starts on the child's
// folder has to stop it.
package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ErrForced says that a child did not end after the first, polite signal.
var ErrForced = errors.New("did not stop in time and was forced")

// Process is a running child, or one that has ended.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // set before done is closed
}

// Start runs cmd. onDeath is the signal that the kernel sends the child when this process
// dies (Linux only).
//
// The kernel ties that signal to the thread that made the child, not to the
// process, and the Go runtime may end a thread at any time. So one goroutine makes the
// child, locks its thread, and lives exactly as long as the child does.
func Start(cmd *exec.Cmd, onDeath syscall.Signal) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	setDeathSignal(cmd.SysProcAttr, onDeath)
	// This is how long we wait, after a child's end, for output that its descendants may
	// still hold open.
	cmd.WaitDelay = 2 * time.Second

	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// PID of the child. After Done it may belong to another process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the child has ended and has been reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the child ended: nil for exit code 0. Only valid after Done.
func (p *Process) Err() error { return p.err }

// Signal the child. A child that has ended is not an error.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal process %d: %w", p.PID(), err)
	}
	return nil
}

// Kill ends the child at once and waits for it.
func (p *Process) Kill() error {
	err := p.Signal(syscall.SIGKILL)
	<-p.done
	return err
}

// Stop sends ask and waits until ctx is done. Then it sends the harsher signals in turn
// and waits two seconds after each. Then it sends SIGKILL. When Stop returns, the child
// has ended. It returns ErrForced if the child did not end before ctx was done.
func (p *Process) Stop(ctx context.Context, ask os.Signal, harsher ...os.Signal) error {
	if err := p.Signal(ask); err != nil {
		return errors.Join(err, p.Kill())
	}
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
	}
	forced := fmt.Errorf("process %d %w", p.PID(), ErrForced)
	for _, sig := range harsher {
		if err := p.Signal(sig); err != nil {
			return errors.Join(forced, err, p.Kill())
		}
		select {
		case <-p.done:
			return forced
		// This is how long Stop waits after each harsher signal.
		case <-time.After(2 * time.Second):
		}
	}
	return errors.Join(forced, p.Kill())
}

// Lines is an io.Writer for a child's output. It passes complete lines on, and
// remembers the last few lines for error messages.
type Lines struct {
	mu   sync.Mutex
	each func(line string)
	keep int
	last []string
	part []byte
}

// NewLines calls each (may be nil) for every line and remembers the last keep.
func NewLines(keep int, each func(line string)) *Lines {
	return &Lines{keep: keep, each: each}
}

func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			l.grow(rest)
			break
		}
		l.grow(rest[:end])
		l.flush()
		rest = rest[end+1:]
	}
	return len(p), nil
}

func (l *Lines) grow(p []byte) {
	// This bounds the length of a line in bytes. The rest of a longer line is dropped.
	l.part = append(l.part, p[:min(len(p), (8<<10)-len(l.part))]...)
}

func (l *Lines) flush() {
	line := strings.TrimRight(string(l.part), "\r")
	l.part = l.part[:0]
	if line == "" {
		return
	}
	if l.each != nil {
		l.each(line)
	}
	l.last = append(l.last, line)
	if len(l.last) > l.keep {
		l.last = l.last[len(l.last)-l.keep:]
	}
}

func (l *Lines) Last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.flush()
	}
	return strings.Join(l.last, " | ")
}
