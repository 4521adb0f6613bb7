package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/datadir"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// run is `ledger run` in its own process.
type run struct {
	t      *testing.T
	dir    string
	cmd    *exec.Cmd
	exited chan error
	log    strings.Builder
	logged sync.Mutex
	up     chan struct{}
}

const (
	startTimeout = 3 * time.Minute
	stopTimeout  = time.Minute
)

// startRun starts everything on a data folder and waits until it is up.
func startRun(t *testing.T, dir string, environ ...string) *run {
	t.Helper()
	r := launch(t, dir, environ...)
	r.awaitUp()
	return r
}

func (r *run) awaitUp() {
	r.t.Helper()
	select {
	case <-r.up:
	case err := <-r.exited:
		r.t.Fatalf("ledger run ended: %v\n%s", err, r.output())
	case <-time.After(startTimeout):
		r.t.Fatalf("ledger run is not up after %v\n%s", startTimeout, r.output())
	}
}

func launch(t *testing.T, dir string, environ ...string) *run {
	t.Helper()
	return launchUnder(t, nil, dir, environ...)
}

// launchUnder starts the program under another program that watches it.
func launchUnder(t *testing.T, watcher []string, dir string, environ ...string) *run {
	t.Helper()
	r := &run{t: t, dir: dir, exited: make(chan error, 1), up: make(chan struct{})}
	command := append(watcher, stacktest.Program(t, stacktest.Ledger), "run")
	r.cmd = exec.Command(command[0], command[1:]...)
	r.cmd.Dir = t.TempDir()
	r.cmd.Env = append(os.Environ(), "LEDGER_DATA_DIR="+dir, "CORE_ADDR=127.0.0.1:0", "EXTENSION_ADDR=127.0.0.1:0", "LOCAL_CHAIN=off")
	r.cmd.Env = append(r.cmd.Env, environ...)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := r.cmd.StdoutPipe()
	noErr(t, err)
	r.cmd.Stderr = r.cmd.Stdout
	noErr(t, r.cmd.Start())
	go r.read(bufio.NewScanner(stdout))
	t.Cleanup(func() { r.kill() })
	return r
}

func (r *run) read(lines *bufio.Scanner) {
	for lines.Scan() {
		r.logged.Lock()
		r.log.WriteString(lines.Text() + "\n")
		r.logged.Unlock()
		if strings.HasPrefix(lines.Text(), "Memory Ledger is up.") {
			close(r.up)
		}
	}
	r.exited <- r.cmd.Wait()
	close(r.exited)
}

// output returns what the run printed, and its log.
func (r *run) output() string {
	r.logged.Lock()
	defer r.logged.Unlock()
	log, err := os.ReadFile(filepath.Join(r.dir, "run.log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Error(err)
	}
	return r.log.String() + string(log)
}

// clients returns clients of both APIs.
func (r *run) clients() (core, extension *stacktest.Client) {
	r.t.Helper()
	where, err := datadir.LoadRun(r.dir)
	noErr(r.t, err)
	return stacktest.NewClient(r.t, contracttest.Core, where.CoreURL), stacktest.NewClient(r.t, contracttest.Extension, where.ExtensionURL)
}

// kill ends the process as a power cut would.
func (r *run) kill() {
	// The group includes the watcher, if there is one. The program's children have their
	// own groups, and die with the program.
	_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	<-r.exited
}

// stop asks the process to stop, and checks that it ends quickly and cleanly.
func (r *run) stop() {
	r.t.Helper()
	start := time.Now()
	where, err := datadir.LoadRun(r.dir)
	noErr(r.t, err)
	noErr(r.t, syscall.Kill(where.PID, syscall.SIGTERM))
	select {
	case err := <-r.exited:
		if err != nil {
			r.t.Errorf("ledger run ended with %v\n%s", err, r.output())
		}
	case <-time.After(stopTimeout):
		r.t.Fatalf("still there %v after SIGTERM\n%s", time.Since(start), r.output())
	}
}

// noProcessUses fails the test if a process still has the folder in its arguments or as
// its working folder.
func noProcessUses(t *testing.T, dir string) {
	t.Helper()
	for pid, cmdline := range commandLines(t) {
		cwd, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		if strings.Contains(cmdline, dir) || strings.HasPrefix(cwd, dir) {
			t.Errorf("process %d is left: %q in %s", pid, cmdline, cwd)
		}
	}
}

// commandLines returns the command lines of this machine's processes, by process ID. A
// zero byte follows each argument.
func commandLines(t *testing.T) map[int]string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("no /proc to look at")
	}
	all := map[int]string{}
	for _, e := range entries {
		pid, notProcess := strconv.Atoi(e.Name())
		cmdline, gone := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if notProcess == nil && gone == nil {
			all[pid] = string(cmdline)
		}
	}
	return all
}

func TestStopAndStartAgain(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := filepath.Join(pgtest.Folder(t), "data")
	first := startRun(t, dir)
	core, extension := first.clients()
	wallet := stacktest.NewWallet()
	session, other := core.SignIn(wallet), extension.SignIn(wallet)
	a := core.Expect(201, "POST", "/memories", map[string]any{"content": "kept", "metadata": map[string]any{}}, session)

	// A second instance on the folder refuses and leaves the first alone.
	second := launch(t, dir)
	if err := <-second.exited; err == nil {
		t.Error("the second instance ended well")
	}
	if out := second.output(); !strings.Contains(out, fmt.Sprint(first.cmd.Process.Pid)) {
		t.Errorf("the second instance says %q", out)
	}
	core.Expect(200, "GET", "/memories/"+a.Text("id"), nil, session)
	answered := stopUnderWriters(t, core, session, "first run", first.stop)
	answered["kept"] = true
	noProcessUses(t, dir)
	if _, err := datadir.LoadRun(dir); !errors.Is(err, datadir.ErrNotRunning) {
		t.Errorf("the note of the run: %v", err)
	}

	third := launchUnder(t, fewFiles, dir)
	third.awaitUp()
	core, extension = third.clients()
	got := decode[view](t, core.Expect(200, "GET", "/memories/"+a.Text("id"), nil, session).Body)
	if got.Content != "kept" || got.LeafHash != a.Text("leafHash") {
		t.Errorf("got %+v", got)
	}
	extension.Expect(200, "GET", "/auth/me", nil, other)
	sameStored(t, core, session, answered)
	withFewFiles(t, third, core, extension, session, other)
	third.stop()
	noProcessUses(t, dir)
}

// TestKillUnderLoad kills the whole process tree during writes, starts it again, and
// checks that everything acknowledged is there.
func TestKillUnderLoad(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := filepath.Join(pgtest.Folder(t), "data")
	wallet := stacktest.NewWallet()
	kept := map[string]stacktest.Answer{}
	var session stacktest.Header
	for round := range 3 {
		r := startRun(t, dir)
		core, extension := r.clients()
		session = core.SignIn(wallet)
		other := extension.SignIn(wallet)
		for id, a := range writeUntilKilled(t, r, core, extension, session, other, round) {
			kept[id] = a
		}
	}
	r := startRun(t, dir)
	core, _ := r.clients()
	all := decode[[]view](t, core.Expect(200, "GET", "/memories", nil, session).Body)
	found := 0
	for i, m := range all {
		if m.LeafIndex != uint64(i) {
			t.Fatalf("position %d holds leaf %d", i, m.LeafIndex)
		}
		if a, ok := kept[m.ID]; ok {
			found++
			if m.LeafHash != a.Text("leafHash") || m.LeafIndex != uint64(a.Number("leafIndex")) {
				t.Errorf("acknowledged %s, found %+v", a.Body, m)
			}
		}
	}
	if found != len(kept) || found == 0 {
		t.Errorf("%d of %d acknowledged memories are there", found, len(kept))
	}
	core.Expect(201, "POST", "/memories", map[string]any{"content": "life goes on"}, session)
	r.stop()
}

// writeUntilKilled writes through both APIs, and kills the process when enough writes are
// acknowledged. It returns the acknowledged answers by ID.
func writeUntilKilled(t *testing.T, r *run, core, extension *stacktest.Client, session, other stacktest.Header, round int) map[string]stacktest.Answer {
	t.Helper()
	const enough = 200
	kept := map[string]stacktest.Answer{}
	var mu sync.Mutex
	var kill sync.Once
	var group sync.WaitGroup
	for w := range 8 {
		group.Go(func() {
			for n := 0; ; n++ {
				content := fmt.Sprintf("round %d writer %d number %d", round, w, n)
				var a stacktest.Answer
				var err error
				if w%2 == 0 {
					a, err = core.Try("POST", "/memories", map[string]any{"content": content}, session)
				} else {
					a, err = extension.Try("POST", "/memories", map[string]any{"content": content, "source": "s"}, other)
				}
				if err != nil {
					return // the process was killed
				}
				if a.Status != 201 {
					t.Errorf("status %d: %s", a.Status, a.Body)
					return
				}
				mu.Lock()
				kept[a.Text("id")] = a
				if len(kept) >= enough {
					go kill.Do(r.kill)
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	kill.Do(r.kill)
	return kept
}

// killChain kills the chain that the run on a folder has started.
func killChain(t *testing.T, dir string) {
	t.Helper()
	for pid, cmdline := range commandLines(t) {
		if !strings.Contains(cmdline, "--data\x00"+filepath.Join(dir, "chain")+"\x00") {
			continue
		}
		noErr(t, syscall.Kill(pid, syscall.SIGKILL))
		return
	}
	t.Fatal("no process is the chain")
}

// TestLocalRunAnchors kills a run between a write and its anchoring. The next run anchors
// that write, and also a write that is made while its chain is killed. The command line
// finds the receipt good on the chain.
func TestLocalRunAnchors(t *testing.T) {
	slow(t)
	t.Parallel()
	dir := filepath.Join(pgtest.Folder(t), "data")
	first := startRun(t, dir, "LOCAL_CHAIN=on")
	core, _ := first.clients()
	wallet := stacktest.NewWallet()
	session := core.SignIn(wallet)
	early := core.Expect(201, "POST", "/memories", map[string]any{"content": "early"}, session)
	core.AwaitAnchored(session, early.Text("id"))
	late := core.Expect(201, "POST", "/memories", map[string]any{"content": "late"}, session)
	first.kill()

	second := startRun(t, dir, "LOCAL_CHAIN=on")
	core, _ = second.clients()
	core.AwaitAnchored(session, late.Text("id"))
	killChain(t, dir) // the run restarts it
	later := core.Expect(201, "POST", "/memories", map[string]any{"content": "later"}, session)
	core.AwaitAnchored(session, later.Text("id"))
	where, err := datadir.LoadRun(dir)
	noErr(t, err)
	file := filepath.Join(t.TempDir(), "receipt.json")
	body := core.Expect(200, "GET", "/memories/"+early.Text("id")+"/receipt", nil, session).Body
	verify := func(content []byte, code int, says string) {
		t.Helper()
		noErr(t, os.WriteFile(file, content, 0o600))
		cmd := exec.Command(second.cmd.Path, "verify-receipt", file, "--rpc", where.SolanaRPCURL)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != code || !strings.Contains(string(out), says) {
			t.Errorf("exit code %d, want %d with %q: %s", cmd.ProcessState.ExitCode(), code, says, out)
		}
	}
	verify(body, 0, "the chain holds it")
	verify([]byte(strings.Replace(string(body), `"early"`, `"earlier"`, 1)), 1, "entry")
	verify([]byte("garbage"), 2, "receipt: it is not a JSON object")
	second.stop()
	noProcessUses(t, dir)
}
