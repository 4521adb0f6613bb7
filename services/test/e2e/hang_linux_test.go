package e2e_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestWarmOwnersWriteWhileTheDatabaseHangs stops every process of the database. Readers,
// and owners who are not in memory, wait for it and get 503. The writes of the other
// owners are acknowledged as usual: with any credential, with and without an
// Idempotency-Key, and with more keys than a state keeps while the database answers.
func TestWarmOwnersWriteWhileTheDatabaseHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	database := pgtest.Start(t, localpostgres.Config{NoSync: true})
	const places = 8
	s := stacktest.Start(t, stacktest.Options{Core: 2, DatabaseURL: database.URL(), Configure: func(c *config.Config) { c.MaxCommands = places }})
	core, other, extension := s.Core[0], s.Core[1], s.Extension[0]
	memory := map[string]any{"content": "x", "metadata": map[string]any{}, "source": "test"}
	write := func(c *stacktest.Client, headers ...stacktest.Header) stacktest.Answer {
		return c.Do("POST", "/memories", memory, headers...)
	}
	keyed := func(n int) stacktest.Header { return stacktest.With("Idempotency-Key", strconv.Itoa(n)) }

	wallet := stacktest.NewWallet()
	session, extensionSession := core.SignIn(wallet), extension.SignIn(wallet)
	key := stacktest.Bearer(core.Expect(201, "POST", "/keys", map[string]any{"label": "x"}, session).Text("key"))
	for n, warm := range []stacktest.Answer{write(core, session, keyed(0)), write(core, key), write(extension, extensionSession, keyed(1))} {
		if warm.Status != 201 {
			t.Fatalf("write %d: %d %s", n, warm.Status, warm.Body)
		}
	}
	var cold []stacktest.Header
	for range 2 * places {
		cold = append(cold, other.SignIn(stacktest.NewWallet())) // in memory on that replica only
	}

	resume := hang(t, database.PID())
	var waiting sync.WaitGroup
	for _, owner := range cold {
		waiting.Go(func() {
			if a := write(core, owner); a.Status != 503 && a.Status != 201 {
				t.Errorf("a cold owner's write: %d %s", a.Status, a.Body)
			}
		})
		waiting.Go(func() {
			if a := core.Do("GET", "/memories", nil, session); a.Status != 503 && a.Status != 200 {
				t.Errorf("a read: %d %s", a.Status, a.Body)
			}
		})
	}
	const writes = 300 // more than twice the keyed writes that a state keeps while the database answers
	begun := time.Now()
	var slowest time.Duration
	timed := func(n int, c *stacktest.Client, headers ...stacktest.Header) {
		before := time.Now()
		if a := write(c, headers...); a.Status != 201 {
			t.Fatalf("write %d at %s after %s: %d %s", n, c.URL, time.Since(begun), a.Status, a.Body)
		}
		slowest = max(slowest, time.Since(before))
	}
	for n := range writes {
		timed(n, core, session, keyed(2*n+2))
		timed(n, core, key)
		timed(n, extension, extensionSession, keyed(2*n+3))
	}
	if slowest > 2*time.Second {
		t.Errorf("a write took %s", slowest)
	}
	t.Logf("%d writes in %s, the slowest %s", 3*writes, time.Since(begun), slowest)
	resume()
	waiting.Wait()
	if all := readThroughOutage(t, core, session, 20*time.Second); len(all) != 3*writes+3 {
		t.Errorf("%d memories, want %d", len(all), 3*writes+3)
	}
}

// hang stops a server, so that it starts no more processes, and then each process that it
// has started, until resume is called or the test ends.
func hang(t *testing.T, server int) (resume func()) {
	t.Helper()
	var all []int
	resume = func() {
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGCONT) // a process that has ended needs none
		}
	}
	t.Cleanup(resume)
	stop := func(pid int) {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		all = append(all, pid)
	}
	stop(server)
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", server, server))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		stop(pid)
	}
	return resume
}
