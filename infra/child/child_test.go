package child_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/memory-ledger/ledger/infra/child"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

// roleEnv makes this test program play one of the processes below.
const roleEnv = "CHILD_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "parent":
		playParent()
	case "polite":
		played(syscall.SIGTERM)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		played(syscall.SIGHUP)
	}
}

// played prints "ready" and ends on the given signal.
func played(end os.Signal) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, end)
	fmt.Println("ready", os.Getpid())
	<-ended
}

// playParent starts a child. Then it makes and ends many locked threads, which must not
// affect the child. Then it waits to be killed.
func playParent() {
	cmd, out := role("stubborn")
	p, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		fmt.Println(err)
		return
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	for range 100 {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		}()
		<-ended
	}
	select {
	case <-p.Done():
		fmt.Println("the child died with a thread of ours")
	default:
		fmt.Print(line)
	}
	select {}
}

func role(name string) (*exec.Cmd, io.Reader) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+name)
	out, in, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	cmd.Stdout = in
	return cmd, out
}

func start(t *testing.T, name string) (*child.Process, int) {
	t.Helper()
	cmd, out := role(name)
	p, err := child.Start(cmd, syscall.SIGKILL)
	must(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	must(t, err)
	text, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ok {
		t.Fatalf("%s said %q", name, line)
	}
	pid, err := strconv.Atoi(text)
	must(t, err)
	return p, pid
}

func TestStopAsksFirst(t *testing.T) {
	t.Parallel()
	p, pid := start(t, "polite")
	if pid != p.PID() {
		t.Errorf("PID %d, the child says %d", p.PID(), pid)
	}
	must(t, p.Stop(t.Context(), syscall.SIGTERM))
	if err := p.Err(); err != nil {
		t.Errorf("exit: %v", err)
	}
	if err := p.Stop(t.Context(), syscall.SIGTERM); err != nil {
		t.Errorf("a second Stop: %v", err)
	}
}

func TestStopForces(t *testing.T) {
	t.Parallel()
	late, cancel := context.WithCancel(t.Context())
	cancel()
	for name, harsher := range map[string][]os.Signal{"by the harsher signal": {syscall.SIGHUP}, "by SIGKILL": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := start(t, "stubborn")
			if err := p.Stop(late, syscall.SIGTERM, harsher...); !errors.Is(err, child.ErrForced) {
				t.Fatalf("got %v, want ErrForced", err)
			}
			select {
			case <-p.Done():
			default:
				t.Error("Stop returned before the end")
			}
			if byKill := p.Err() != nil; byKill != (harsher == nil) {
				t.Errorf("ended with %v", p.Err())
			}
		})
	}
}
