package feed_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/feed"
)

// writer is an owner who writes.
type writer struct {
	log   eventlog.Log
	owner events.Owner

	mu  sync.Mutex
	seq uint64
	n   int
	ids []string // of all events written
}

// write appends one message of some events.
func (w *writer) write(t *testing.T, count int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
	batch := make([]events.Event, count)
	for i := range batch {
		batch[i] = events.Event{
			ID: fmt.Sprintf("%s-%d-%d", w.owner[:4], w.n, i), Source: "/test", Owner: w.owner, Time: events.At(time.Now()),
			OwnerVersion: w.n, CommandID: logtest.CommandID(), Data: &events.ApiKeyUsed{KeyID: "key"},
		}
		batch[i].CommandID = batch[0].CommandID
		w.ids = append(w.ids, batch[i].ID)
	}
	payload, err := events.EncodeBatch(batch)
	if err != nil {
		t.Error(err)
		return
	}
	w.seq, err = w.log.Append(t.Context(), eventlog.Append{
		Family: events.FamilyLedger, Owner: w.owner, Kind: events.KindKey, CommandID: batch[0].CommandID, Expected: w.seq, Payload: payload,
	})
	if err != nil {
		t.Error(err)
	}
}

func (w *writer) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ids)
}

func idsOf(t *testing.T, p feed.Page) (ids []string) {
	t.Helper()
	var page struct {
		Events []struct{ ID string }
		Cursor string
	}
	if err := json.Unmarshal(p.AppendJSON(nil), &page); err != nil || page.Cursor != fmt.Sprint(p.Cursor) {
		t.Fatalf("%s: %v", p.AppendJSON(nil), err)
	}
	for _, e := range page.Events {
		ids = append(ids, e.ID)
	}
	return ids
}

func newFeed(t *testing.T, log *eventlog.JetStream, tail eventlog.Follower, most int) *feed.Feed {
	t.Helper()
	f := feed.New(feed.Config{Log: log, Tail: tail, Max: most, Logger: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	return f
}

// mostEvents is the largest limit that the API lets through.
const mostEvents = 1000

// flaky is a tail that breaks regularly.
type flaky struct {
	eventlog.Follower
	breaks atomic.Int64
}

var errBroken = errors.New("broken")

func (f *flaky) Follow(ctx context.Context, cfg eventlog.FollowConfig, yield func(eventlog.Slice) error) error {
	slices := 0
	return f.Follower.Follow(ctx, cfg, func(s eventlog.Slice) error {
		if slices++; slices%4 == 0 {
			f.breaks.Add(1)
			return errBroken // this slice is not delivered
		}
		return yield(s)
	})
}

// TestEachEventOnce: a follower gets each event once, in order, whenever it begins,
// however slowly it reads, and whatever happens to the tail. Only the rest of a page's last
// message exceeds the limit.
func TestEachEventOnce(t *testing.T) {
	t.Parallel()
	const followers, owners, messages = 16, 4, 40
	nc, _ := natstest.Connect(t, natstest.Start(t).URL())
	natstest.Log(t, nc)
	log, err := eventlog.Open(t.Context(), nc)
	testkit.Must(t, err)
	tail := &flaky{Follower: log}
	f := newFeed(t, log, tail, followers)
	writers := make([]*writer, owners)
	var group sync.WaitGroup
	for i := range writers {
		writers[i] = &writer{log: log, owner: logtest.Owner()}
		group.Go(func() {
			for range messages {
				writers[i].write(t, 1+rand.IntN(3))
				time.Sleep(time.Duration(rand.IntN(15)) * time.Millisecond)
			}
			writers[i].write(t, 300)
			writers[i].write(t, 1)
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for i := range followers {
		w, limit := writers[i%owners], []int{1, 4, mostEvents}[i%3]
		group.Go(func() {
			time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // while they write, or after
			follower, err := f.Follow(w.owner, 0, limit)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { follower.Close() }()
			var got []string
			for last := ""; last != w.last(messages+2); {
				page, err := follower.Next(ctx)
				if err != nil {
					t.Errorf("after %d events: %v", len(got), err)
					return
				}
				ids := idsOf(t, page)
				got, last = append(got, ids...), ids[len(ids)-1]
				message := last[:strings.LastIndex(last, "-")+1]
				if before := slices.IndexFunc(ids, func(id string) bool { return strings.HasPrefix(id, message) }); before >= limit {
					t.Errorf("%d events before the last message of a page, limit %d", before, limit)
				}
				switch rand.IntN(20) {
				case 0: // reads slowly
					time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
				case 1: // connects again
					follower.Close()
					if follower, err = f.Follow(w.owner, page.Cursor, limit); err != nil {
						t.Error(err)
						return
					}
				}
			}
			if !slices.Equal(got, w.all()) {
				t.Errorf("got %d events of %d", len(got), len(w.all()))
			}
		})
	}
	group.Wait()
	if tail.breaks.Load() == 0 {
		t.Error("the tail never broke")
	}
	if f.Streams() != 0 {
		t.Errorf("%d streams are open", f.Streams())
	}
}

// TestAKeySeesNoAppOfOthers: the name of an app is the label of its key. Metadata stays.
func TestAKeySeesNoAppOfOthers(t *testing.T) {
	page := feed.Page{Events: []byte(`{"data":{"app":{"name":"Bank","redirectHost":"bank.example"},"keyId":"1","metadata":{"kind":"session","of":"yoga"}}}`)}
	if err := page.HideAccess(); err != nil || string(page.Events) != `{"data":{"keyId":"1","metadata":{"kind":"session","of":"yoga"}}}` {
		t.Errorf("%s, %v", page.Events, err)
	}
}

// last returns the id of the only event of a message.
func (w *writer) last(message int) string { return fmt.Sprintf("%s-%d-0", w.owner[:4], message) }
