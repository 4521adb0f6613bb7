package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// writer sends each write with an Idempotency-Key, repeats it with the same key until it
// is acknowledged, and remembers the acknowledged writes.
type writer struct {
	t       *testing.T
	core    *stacktest.Client
	session stacktest.Header

	mu    sync.Mutex
	acked map[string]stacktest.Answer // by content
	busy  int                         // 503 answers
}

// until writes until the channel closes. It calls refused at each 503.
func (w *writer) until(done <-chan struct{}, refused func(), name string) {
	for n := 0; ; n++ {
		content := fmt.Sprintf("%s%d", name, n)
		for {
			a, err := w.core.Try("POST", "/memories", map[string]any{"content": content}, w.session, stacktest.With("Idempotency-Key", content))
			if err != nil {
				w.t.Errorf("%s: %v", content, err)
				return
			}
			if a.Status == 201 {
				w.mu.Lock()
				w.acked[content] = a
				w.mu.Unlock()
				break
			}
			if a.Status != 503 || a.Header.Get("Retry-After") == "" {
				w.t.Errorf("%s: status %d: %s", content, a.Status, a.Body)
				return
			}
			w.mu.Lock()
			w.busy++
			w.mu.Unlock()
			refused()
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// check compares the acknowledged memories with the stored ones: each must be there once.
func (w *writer) check() {
	w.t.Helper()
	all := readThroughOutage(w.t, w.core, w.session, 20*time.Second)
	times := map[string]int{}
	for i, m := range all {
		times[m.Content]++
		if m.LeafIndex != uint64(i) {
			w.t.Fatalf("position %d holds leaf %d", i, m.LeafIndex)
		}
		if a, ok := w.acked[m.Content]; ok && (a.Text("id") != m.ID || a.Number("leafIndex") != i) {
			w.t.Errorf("acknowledged %s, found %+v", a.Body, m)
		}
	}
	for content := range w.acked {
		if times[content] != 1 {
			w.t.Errorf("%q is there %d times", content, times[content])
		}
	}
	if len(all) != len(w.acked) {
		w.t.Errorf("%d memories, %d acknowledged", len(all), len(w.acked))
	}
}

// writesInOutage is more than twice the keyed writes that an owner's state keeps while
// the database answers.
const writesInOutage = 300

// written is how many memories were acknowledged.
func (w *writer) written() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acked)
}

// outage runs writers through an outage. It breaks a server and waits for the first
// refusal, or for some writes if none may be refused. Then it mends the server and checks
// that writing continues.
func outage(t *testing.T, s *stacktest.Stack, rounds int, refusesWrites bool, breakIt, mend func()) {
	t.Helper()
	w := &writer{t: t, core: s.Core[0], acked: map[string]stacktest.Answer{}}
	w.session = w.core.SignIn(stacktest.NewWallet())
	for round := range rounds {
		done, refused := make(chan struct{}), make(chan struct{})
		var once sync.Once
		var group sync.WaitGroup
		for i := range 4 {
			group.Go(func() {
				w.until(done, func() { once.Do(func() { close(refused) }) }, fmt.Sprintf("round-%d-writer-%d-", round, i))
			})
		}
		breakIt()
		if !refusesWrites {
			enough := w.written() + writesInOutage
			group.Go(func() {
				for w.written() < enough {
					select {
					case <-done: // a write was refused, or it took too long
						return
					case <-time.After(time.Millisecond):
					}
				}
				once.Do(func() { close(refused) })
			})
		}
		select {
		case <-refused:
		case <-time.After(2 * time.Minute):
			t.Error("nothing was refused, or too little written, during the outage")
		}
		mend()
		close(done) // each writer finishes its current memory
		group.Wait()
	}
	w.check()
	if refused := w.busy > 0; refused != refusesWrites {
		t.Errorf("%d writes were refused", w.busy)
	}
}

func TestLogGoesAwayAndComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	server := natstest.StartProcess(t, natstest.Sync())
	s := stacktest.Start(t, stacktest.Options{NATSURL: server.URL()})
	outage(t, s, 2, true, server.Kill, server.Start)
}

// TestDatabaseGoesAwayAndComesBack: writes for an owner in memory need no database.
func TestDatabaseGoesAwayAndComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	folder := pgtest.Folder(t)
	database := pgtest.Start(t, localpostgres.Config{Dir: folder})
	s := stacktest.Start(t, stacktest.Options{DatabaseURL: database.URL()})
	outage(t, s, 2, false, func() {
		noErr(t, database.Stop(context.Background()))
	}, func() { database = pgtest.Start(t, localpostgres.Config{Dir: folder}) })
}
