package eventlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// house is a ServerProbe that the test controls.
type house struct {
	visits   atomic.Uint64
	visitors atomic.Int64
}

func (h *house) Visits() uint64 { return h.visits.Load() }
func (h *house) Alone() bool    { return h.visitors.Load() == 0 }

func (h *house) visit() (leave func()) {
	h.visitors.Add(1)
	h.visits.Add(1)
	return func() { h.visitors.Add(-1) }
}

func named(n int) events.Owner {
	return events.OwnerFromBytes([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
}

// TestOwnerHeadsAreBelievedWhileAlone: the heads are trusted while no other process is
// connected and no append is in doubt. Afterwards they are trusted again once both have
// held for a while.
func TestOwnerHeadsAreBelievedWhileAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := new(house)
		o := WithOwnerHeads(nil, h)
		head := uint64(10)
		var failing error
		look := func() {
			o.look(time.Now(), func(context.Context) (uint64, error) { return head, failing })
			synctest.Wait()
		}
		want := func(owner int, seq uint64, known bool) {
			t.Helper()
			if got, is := o.of(named(owner)); got != seq || is != known {
				t.Errorf("owner %d: %d, %t; want %d, %t", owner, got, is, seq, known)
			}
		}
		o.note(named(1), 9)
		want(1, 0, false)
		failing = errors.New("the log is away")
		look()
		want(1, 0, false)
		failing = nil
		look()
		want(1, 0, false) // too soon
		time.Sleep(headsPause)
		look()
		want(1, 10, true)
		o.note(named(1), 12)
		o.note(named(2), 11)
		want(1, 12, true)
		want(2, 11, true)
		want(3, 10, true)
		o.note(named(1), 11) // an append whose answer arrived late
		want(1, 12, true)

		leave := h.visit()
		want(1, 0, false)
		head = 20
		for range 3 { // as long as a visitor is connected
			time.Sleep(headsPause)
			look()
			want(1, 0, false)
		}
		leave()
		time.Sleep(headsPause)
		look()
		want(1, 0, false) // the visitor left only a moment ago
		h.visit()()
		time.Sleep(headsPause)
		look()
		want(1, 0, false) // another visitor was connected meanwhile
		time.Sleep(headsPause)
		look()
		want(1, 20, true)
		want(3, 20, true)

		o.doubt()
		want(1, 0, false)
		head = 21
		time.Sleep(headsPause)
		look()
		want(1, 0, false)
		time.Sleep(headsPause)
		look()
		want(1, 21, true)
	})
}

// TestADoubtWhileItLooks: an append that ends in doubt while the head is being read may be
// newer than that head.
func TestADoubtWhileItLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := WithOwnerHeads(nil, new(house))
		o.look(time.Now(), func(context.Context) (uint64, error) {
			o.note(named(1), 6) // an append that began before the look, noted during it
			o.doubt()
			return 5, nil
		})
		synctest.Wait()
		if seq, known := o.of(named(1)); known {
			t.Errorf("believed, at %d", seq)
		}
	})
}

func TestOwnerHeadsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := WithOwnerHeads(nil, new(house))
		o.look(time.Now(), func(context.Context) (uint64, error) { return 0, nil })
		synctest.Wait()
		for n := 1; n <= headsOwners; n++ {
			o.note(named(n), uint64(n))
		}
		if seq, known := o.of(named(7)); seq != 7 || !known {
			t.Errorf("%d, %t", seq, known)
		}
		o.note(named(headsOwners+1), headsOwners+1)
		if seq, known := o.of(named(7)); seq != headsOwners+1 || !known || len(o.newest) != 0 {
			t.Errorf("%d, %t, %d kept", seq, known, len(o.newest))
		}
	})
}

// broken is a syncer that returns err.
type broken struct{ err error }

func (b broken) Sync(context.Context) error { return b.err }

// TestWhatIsAppendedIsKnown: once Append has returned, the owner's head is known. Memory
// keeps the message only once it is on stable storage.
func TestWhatIsAppendedIsKnown(t *testing.T) {
	t.Parallel()
	conn, err := natstest.Start(t).Connect()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := Create(t.Context(), conn, Config{})
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for _, lost := range []error{nil, errors.New("the disk failed")} {
		recent := WithRecentAppends(WithGroupSync(stream, broken{lost}))
		heads := WithOwnerHeads(recent, new(house))
		heads.believed = true
		appended, err := heads.Append(t.Context(), Append{
			Family: events.FamilyLedger, Owner: named(1), Kind: events.KindMemory, CommandID: fmt.Sprint(last), Expected: last, Payload: []byte("x"),
		})
		if err != nil {
			t.Fatal(err)
		}
		last = appended.Seq
		if newest, known := heads.Newest(named(1)); !known || newest != last {
			t.Errorf("stored at %d, and known is %d, %t", last, newest, known)
		}
		if recent.holds(last, last) {
			t.Error("memory has a message before it is synced")
		}
		if err := appended.Wait(t.Context()); !errors.Is(err, lost) || lost != nil && !errors.Is(err, ErrUncertain) {
			t.Errorf("the wait ended with %v", err)
		}
		if has := recent.holds(last, last); has != (lost == nil) {
			t.Errorf("synced: %v, and memory has it: %t", lost, has)
		}
	}
}

// TestNewestIsNeverBehind: a known head covers all messages acknowledged before, by this
// process or by visitors that connect and disconnect.
func TestNewestIsNeverBehind(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	inside, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	stream, err := Create(t.Context(), inside, Config{})
	if err != nil {
		t.Fatal(err)
	}
	log := WithOwnerHeads(stream, server)
	log.pause = 2 * time.Millisecond

	const owners, rounds = 4, 120
	var (
		group        sync.WaitGroup
		acknowledged [owners]atomic.Uint64
		turns        [owners]sync.Mutex // one writer per owner at a time
		known, asked atomic.Int64
	)
	appendTo := func(log Log, n int) error {
		turns[n].Lock()
		defer turns[n].Unlock()
		seq, err := AppendAndWait(t.Context(), log, Append{
			Family: events.FamilyLedger, Owner: named(n), Kind: events.KindMemory,
			CommandID: fmt.Sprint(n, "-", acknowledged[n].Load()), Expected: acknowledged[n].Load(), Payload: []byte("x"),
		})
		if err != nil {
			return err
		}
		acknowledged[n].Store(seq)
		return nil
	}
	writing := make(chan struct{})
	for i := range 3 {
		group.Go(func() {
			for n := range rounds * owners {
				if err := appendTo(log, (n+i)%owners); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Go(func() {
		for n := range rounds / 10 {
			conn, err := nats.Connect(server.URL())
			if err != nil {
				t.Error(err)
				return
			}
			visitor, err := Open(t.Context(), conn)
			if err == nil {
				err = appendTo(visitor, n%owners)
			}
			if err != nil {
				t.Error(err)
			}
			conn.Close()
			if before := known.Load(); n%2 == 0 { // wait until the heads are trusted again
				for deadline := time.Now().Add(2 * time.Minute); known.Load() == before && time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
			}
		}
	})
	var readers sync.WaitGroup
	for n := range owners {
		readers.Go(func() {
			for {
				select {
				case <-writing:
					return
				default:
				}
				before := acknowledged[n].Load()
				asked.Add(1)
				if seq, ok := log.Newest(named(n)); ok {
					known.Add(1)
					if seq < before {
						t.Errorf("owner %d: %d, but %d was acknowledged", n, seq, before)
						return
					}
				}
				time.Sleep(50 * time.Microsecond)
			}
		})
	}
	group.Wait()
	close(writing)
	readers.Wait()
	if known.Load() == 0 || known.Load() == asked.Load() {
		t.Errorf("known %d of %d times: nothing was tested", known.Load(), asked.Load())
	}
}
