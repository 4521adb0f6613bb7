package natstest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/localnats"
)

// processEnv carries the configuration of a server process.
const processEnv = "LEDGER_NATSTEST_PROCESS"

// spec tells the server process how to run. note is the process's answer on its standard
// output, once it is ready or has failed.
type (
	spec struct {
		Dir    string `json:"dir"`
		Port   int    `json:"port"`
		NoSync bool   `json:"noSync"`
	}
	note struct {
		URL   string `json:"url,omitempty"`
		Port  int    `json:"port,omitempty"`
		Error string `json:"error,omitempty"`
	}
)

func init() {
	if text := os.Getenv(processEnv); text != "" {
		os.Exit(serve(text))
	}
}

// serve is the server process: it runs until SIGTERM.
func serve(text string) int {
	say := func(n note) { _ = json.NewEncoder(os.Stdout).Encode(n) } // no way to report an error
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	var sp spec
	if err := json.Unmarshal([]byte(text), &sp); err != nil {
		say(note{Error: err.Error()})
		return 2
	}
	s, err := localnats.Start(ctx, localnats.Config{
		Dir: sp.Dir, Port: sp.Port, Password: "natstest", NoSync: sp.NoSync,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		say(note{Error: err.Error()})
		return 1
	}
	say(note{URL: s.URL(), Port: s.Port()})
	<-ctx.Done()
	if err := s.Stop(context.Background()); err != nil {
		return 1
	}
	return 0
}

// Process is a server in a separate process. Its methods are safe for concurrent use. A
// method that can't do its work fails the test.
type Process struct {
	t    testing.TB
	mu   sync.Mutex
	spec spec
	url  string
	proc *child.Process // nil while it is down
}

// StartProcess runs a server for one test as a separate process. The server stops when
// the test ends, and dies with the test program.
func StartProcess(t testing.TB, opts ...Option) *Process {
	t.Helper()
	cfg := config(t, opts)
	p := &Process{t: t, spec: spec{Dir: cfg.Dir, Port: cfg.Port, NoSync: cfg.NoSync}}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// URL with the credential; the same for every start.
func (p *Process) URL() string { return p.url }

// PID of the running process, 0 while it is down.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		return 0
	}
	return p.proc.PID()
}

// Start starts the server again on the same folder and port, and returns when the server
// is ready. It does nothing while the server is up.
func (p *Process) Start() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc != nil {
		return
	}
	var errs []error
	// While the server was down, another process may have got its port for a moment.
	for range 5 {
		proc, ready, err := launch(p.spec)
		if err == nil {
			p.proc, p.url, p.spec.Port = proc, ready.URL, ready.Port
			return
		}
		errs = append(errs, err)
	}
	p.t.Fatalf("natstest: %v", errors.Join(errs...))
}

// Stop ends the server in good order.
func (p *Process) Stop() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.proc.Stop(ctx, syscall.SIGTERM); err != nil {
		p.t.Errorf("natstest: %v", err)
	}
	p.proc = nil
}

// Kill ends the server as a crash would and returns when the process has ended.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		return
	}
	if err := p.proc.Kill(); err != nil {
		p.t.Errorf("natstest: %v", err)
	}
	p.proc = nil
}

// Freeze suspends the process: its port no longer answers, but its connections stay
// open. Thaw resumes the process.
func (p *Process) Freeze() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	if err := awaitStopped(p.PID()); err != nil {
		p.t.Fatalf("natstest: freeze: %v", err)
	}
}

// Thaw ends a Freeze.
func (p *Process) Thaw() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
}

// Starve keeps the server from opening more files: it can no longer read data that it
// does not have in memory. The function feed ends this. The test is skipped on systems
// that can't do this.
func (p *Process) Starve() (feed func()) {
	p.t.Helper()
	limit := func(files uint64) uint64 {
		before, err := limitFiles(p.PID(), files)
		if errors.Is(err, errors.ErrUnsupported) {
			p.t.Skip("natstest: a process can't be kept from opening files here")
		}
		if err != nil {
			p.t.Fatalf("natstest: limit files: %v", err)
		}
		return before
	}
	before := limit(3)
	return func() { limit(before) }
}

func (p *Process) signal(sig os.Signal) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		p.t.Fatal("natstest: the server is down")
	}
	if err := p.proc.Signal(sig); err != nil {
		p.t.Fatalf("natstest: %v", err)
	}
}

func launch(sp spec) (*child.Process, note, error) {
	text, err := json.Marshal(sp)
	if err != nil {
		return nil, note{}, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, note{}, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, note{}, err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), processEnv+"="+string(text))
	cmd.Stdout = in
	lines := child.NewLines(5, nil)
	cmd.Stderr = lines
	proc, err := child.Start(cmd, syscall.SIGKILL)
	_ = in.Close() // the child has its own copy, or did not start
	if err != nil {
		return nil, note{}, err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var ready note
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err == nil && ready.Error != "" {
		err = errors.New(ready.Error)
	}
	if err != nil {
		return nil, note{}, errors.Join(fmt.Errorf("server process: %w: %s", err, lines.Last()), proc.Kill())
	}
	return proc, ready, nil
}
