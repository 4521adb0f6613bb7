package grant_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

var must, errorOf = testkit.Must, testkit.ErrorOf

// counter is the grant service of a replica beside a stack. The test calls it directly.
type counter struct {
	*grant.Service
	t     *testing.T
	stack *stacktest.Stack
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	s := stacktest.Start(t, stacktest.Options{})
	base, f := s.Beside(t)
	d, err := assembly.NewAPIServer(t.Context(), base, assembly.Neighbors{})
	must(t, err)
	commands := command.NewExecutor(command.Config{
		Log: base.Log, Loader: command.ReadModel{Pool: base.Pool, Now: time.Now}, Source: "/test", Now: time.Now, NewID: assembly.NewID, CachedOwners: 9,
	})
	return &counter{t: t, stack: s, Service: grant.New(grant.Config{
		Commands: commands, Memories: memory.New(memory.Config{Commands: commands, Keys: d.Keys, Pool: base.Pool, NewID: assembly.NewID, Now: time.Now, Texts: memory.NewTextCache(0), Slots: memory.NewFairScheduler()}),
		Query: base.Pool, Fence: f, Now: time.Now, NewID: assembly.NewID,
	})}
}

// shown is a minted case with its token, and the owner's session.
type shown struct {
	counter *counter
	owner   events.Owner
	core    stacktest.Header
	id      string
	token   string
}

// mint creates a case for a new owner with some memories.
func (c *counter) mint(reads int, contents ...string) shown {
	c.t.Helper()
	wallet := stacktest.NewWallet()
	s := shown{counter: c, owner: events.Owner(wallet.PublicKey), core: c.stack.Core[0].SignIn(wallet)}
	for _, content := range contents {
		s.write(content)
	}
	minted, err := c.Mint(c.t.Context(), access.Caller{Owner: s.owner}, grant.Asked{Kind: events.GrantCase, Lifetime: time.Hour, Uses: reads})
	must(c.t, err)
	s.id, s.token = minted.ID, minted.URL[strings.LastIndex(minted.URL, "/")+1:]
	return s
}

func (s shown) write(content string) {
	s.counter.t.Helper()
	s.counter.stack.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": content, "metadata": map[string]any{}}, s.core)
}

// used returns how many reads were spent.
func (s shown) used() int {
	s.counter.t.Helper()
	_, err := s.counter.Fence.WaitOwner(s.counter.t.Context(), s.owner)
	must(s.counter.t, err)
	g, err := s.counter.ByID(s.counter.t.Context(), s.owner, events.GrantCase, s.id)
	must(s.counter.t, err)
	return g.Used
}

// TestNoMoreReadersAtWorkThanReadsLeft: two readers of a case with two reads work at the
// same time. Of a case with one read, only one works. The other waits, finds the case
// dead, and renders nothing.
func TestNoMoreReadersAtWorkThanReadsLeft(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	for _, reads := range []int{2, 1} {
		s := c.mint(reads, "a memory")
		atWork, goOn, ended := make(chan struct{}, 2), make(chan struct{}), make(chan error, 2)
		read := func() {
			var once sync.Once // it is asked before each piece of work
			_, err := c.Read(t.Context(), s.token, nil, func() bool {
				once.Do(func() { atWork <- struct{}{} })
				<-goOn
				return false
			})
			ended <- err
		}
		go read()
		go read()
		testkit.Await(t, "as many work at the same time as there are reads", func() bool { return len(atWork) == reads && c.Readers() == 2 })
		close(goOn)
		late := 0
		for range 2 {
			if err := <-ended; errors.Is(err, grant.ErrDead) {
				late++
			} else if err != nil {
				t.Error(err)
			}
		}
		if late != 2-reads || len(atWork) != reads || s.used() != reads {
			t.Errorf("of %d reads %d are spent, %d came too late, and %d worked", reads, s.used(), late, len(atWork))
		}
	}
}

// TestAnExpiredGrantIsNotRevoked: ending it records that, and each repetition gets the answer
// of the first.
func TestAnExpiredGrantIsNotRevoked(t *testing.T) {
	t.Parallel()
	c, owner := newCounter(t), events.Owner(stacktest.NewWallet().PublicKey)
	minted, err := c.Mint(t.Context(), access.Caller{Owner: owner}, grant.Asked{Kind: events.GrantDrop, Uses: 1}) // for no time
	must(t, err)
	for again := range 2 {
		must(t, errorOf(c.Fence.WaitOwner(t.Context(), owner)))
		g, err := c.ByID(t.Context(), owner, events.GrantDrop, minted.ID)
		must(t, err)
		revoked, err := c.Revoke(t.Context(), owner, command.Credential{}, events.GrantDrop, minted.ID)
		if err != nil || revoked || g.Revoked(c.Now()) || (g.RevokedAt != nil) != (again == 1) {
			t.Errorf("revoked %v, %v, %+v", revoked, err, g)
		}
	}
}

// TestAReadHasTimeOfItsOwn: rendering a long log and spending the read may take longer
// than a request's deadline.
func TestAReadHasTimeOfItsOwn(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	s := c.mint(1, "a memory")
	ctx, over := context.WithCancel(t.Context())
	document, err := c.Read(ctx, s.token, nil, func() bool { over(); return false })
	must(t, err)
	text, err := io.ReadAll(document.Text)
	if err != nil || !strings.Contains(string(text), "a memory") || s.used() != 1 {
		t.Errorf("%s, %v, %d reads are spent", text, err, s.used())
	}
}

// TestAReadThatComesToNothing: no read is spent if the client has left. If the case is
// revoked meanwhile, no read is spent and no bytes of the document are kept.
func TestAReadThatComesToNothing(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	s := c.mint(1, "a memory")
	if _, err := c.Read(t.Context(), s.token, nil, func() bool { return true }); !errors.Is(err, memory.ErrAbandoned) || s.used() != 0 {
		t.Errorf("nobody waits for it: %v, %d reads are spent", err, s.used())
	}
	_, err := c.Read(t.Context(), s.token, nil, func() bool {
		if ended, err := c.Revoke(t.Context(), s.owner, command.Credential{}, events.GrantCase, s.id); err != nil || !ended {
			t.Errorf("revoke: %v, %v", ended, err)
		}
		return false
	})
	if !errors.Is(err, grant.ErrDead) || s.used() != 0 {
		t.Errorf("revoked meanwhile: %v, %d reads are spent", err, s.used())
	}
}

// TestADocumentHasAsManyMemoriesAsItSays: a document that is rendered a second time,
// because it is too long to keep, leaves out memories written since the first time.
func TestADocumentHasAsManyMemoriesAsItSays(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	const memories = 17
	contents := make([]string, memories) // 4 MiB and more
	for i := range contents {
		contents[i] = strings.Repeat("long ", 52_000)
	}
	s := c.mint(1, contents...)
	var asked atomic.Int32
	document, err := c.Read(t.Context(), s.token, nil, func() bool {
		if asked.Add(1) == 1 {
			s.write("one more")
		}
		return false
	})
	must(t, err)
	text, err := io.ReadAll(document.Text)
	if err != nil || document.Size >= 0 || !strings.Contains(string(text), "- Memories: 17\n") {
		t.Errorf("%.300s: size %d, %v", text, document.Size, err)
	}
	if n := strings.Count(string(text), "\n## Memory "); n != memories {
		t.Errorf("it has %d", n)
	}
}

func TestMain(m *testing.M) { pgtest.Main(m) }
