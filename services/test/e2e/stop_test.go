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
	"testing"
	"time"

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
	noErr(t, err)
	noErr(t, a.cmd.Start())
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

// kill ends the service as a power cut does.
func (a *alone) kill() {
	_ = a.cmd.Process.Kill() // it may have ended by itself
	<-a.exited
}
