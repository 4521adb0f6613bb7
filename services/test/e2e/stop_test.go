package e2e_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// stopUnderWriters stops a service while 20 clients write to it without an
// Idempotency-Key. It returns the contents that were answered with 201.
func stopUnderWriters(t *testing.T, client *stacktest.Client, session stacktest.Header, round string, stop func()) map[string]bool {
	t.Helper()
	const writers, enough = 20, 100
	answered := map[string]bool{}
	some := make(chan struct{})
	var mu sync.Mutex
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := 0; ; n++ {
				content := fmt.Sprintf("%s, writer %d, %d", round, w, n)
				a, err := client.Try("POST", "/memories", map[string]any{"content": content, "source": "s"}, session)
				if err != nil {
					return // the connection was closed, so the write was not done
				}
				if a.Status == http.StatusServiceUnavailable && strings.Contains(a.Text("error"), "stopping") {
					return
				}
				if a.Status != http.StatusCreated {
					t.Errorf("status %d: %s", a.Status, a.Body)
					return
				}
				mu.Lock()
				answered[content] = true
				if len(answered) == enough {
					close(some)
				}
				mu.Unlock()
			}
		})
	}
	<-some
	stop()
	group.Wait()
	return answered
}

// sameStored compares the stored memories with the answered writes. TestStopAndStartAgain
// uses it for a whole run.
func sameStored(t *testing.T, core *stacktest.Client, session stacktest.Header, answered map[string]bool) {
	t.Helper()
	stored := map[string]bool{}
	for _, m := range decode[[]view](t, core.Expect(200, "GET", "/memories", nil, session).Body) {
		if stored[m.Content] = true; !answered[m.Content] {
			t.Errorf("%q is stored and was not answered", m.Content)
		}
	}
	for content := range answered {
		if !stored[content] {
			t.Errorf("%q was answered and is not stored", content)
		}
	}
}

// TestStopOneServiceUnderLoad stops each API five times, in its own process.
func TestStopOneServiceUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{})
	path := binary(t)
	for _, service := range []struct {
		name, addr string
		api        contracttest.API
	}{{"core-api", "CORE_ADDR", contracttest.Core}, {"extension-api", "EXTENSION_ADDR", contracttest.Extension}} {
		t.Run(service.name, func(t *testing.T) {
			t.Parallel()
			wallet := stacktest.NewWallet()
			answered := map[string]bool{}
			for round := range 5 {
				process := startAlone(t, s, path, service.name, service.addr)
				client := stacktest.NewClient(t, service.api, process.url)
				stop := func() { process.stop(t) }
				for content := range stopUnderWriters(t, client, client.SignIn(wallet), fmt.Sprint("round ", round), stop) {
					answered[content] = true
				}
			}
			sameStored(t, s.Core[0], s.Core[0].SignIn(wallet), answered)
		})
	}
}

var listening = regexp.MustCompile(`msg=listening .*addr=(\S+)`)

// alone is one service in its own process.
type alone struct {
	url    string
	cmd    *exec.Cmd
	exited chan error
	said   strings.Builder
}

// startAlone starts an API beside a stack, and returns when it listens.
func startAlone(t *testing.T, s *stacktest.Stack, path, name, addr string) *alone {
	t.Helper()
	a := &alone{cmd: exec.Command(path, name), exited: make(chan error, 1)}
	a.cmd.Dir = t.TempDir()
	a.cmd.Env = append(os.Environ(), addr+"=127.0.0.1:0", "NATS_URL="+s.NATSURL, "DATABASE_URL="+s.Config.DatabaseURL,
		"MASTER_KEY="+s.Config.MasterKey, "JWT_SECRET="+s.Config.JWTSecret)
	output, err := a.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.cmd.Process.Kill() })
	up := make(chan string, 1)
	go func() {
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			a.said.WriteString(lines.Text() + "\n")
			if m := listening.FindStringSubmatch(lines.Text()); m != nil {
				up <- "http://" + m[1]
			}
		}
		a.exited <- a.cmd.Wait()
	}()
	select {
	case a.url = <-up:
	case err := <-a.exited:
		t.Fatalf("%s ended: %v\n%s", name, err, a.said.String())
	case <-time.After(startTimeout):
		t.Fatalf("%s does not listen", name)
	}
	return a
}

// stop asks the service to stop, and waits until it has.
func (a *alone) stop(t *testing.T) {
	t.Helper()
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	select {
	case err := <-a.exited:
		if err != nil {
			t.Errorf("it ended with %v\n%s", err, a.said.String())
		}
	case <-time.After(stopTimeout):
		t.Errorf("still there %v after SIGTERM", stopTimeout)
	}
}

// kill ends the service as a power cut does.
func (a *alone) kill() {
	_ = a.cmd.Process.Kill() // it may have ended by itself
	<-a.exited
}
