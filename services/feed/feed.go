// Package feed gives owners their own history: pages of past events, and new events as
// they arrive.
//
// The log is the only source. A cursor is the sequence of a message, so it is valid for
// as long as the log exists, on every replica, whatever happens to the read models. All
// events of a message have one cursor.
//
// While there are followers, one tail in each process follows the log for all of them, by
// direct gets, and wakes those whose owner has a new message. They read it from the log.
package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

const (
	// pause is the wait before a failed tail begins again.
	pause = time.Second
	// maxPerOwner bounds an owner's followers, so that one owner can't take all of them.
	maxPerOwner = 32
)

// ErrTooMany: the process already has its maximum number of followers. For an owner with
// too many, the error is a quota.ExceededError.
var ErrTooMany = errors.New("too many open event streams")

type Config struct {
	Log    eventlog.Reader
	Tail   eventlog.Follower // says that there are new events
	Max    int               // followers at the same time
	Logger *slog.Logger
}

// Feed reads owners' histories.
type Feed struct {
	cfg   Config
	begun chan struct{} // signals that there is a new follower

	mu        sync.Mutex
	open      int // followers that are not closed
	followers map[events.Owner]map[*Follower]struct{}
}

// New returns a Feed. Followers get new events only while Run runs.
func New(cfg Config) *Feed {
	return &Feed{cfg: cfg, begun: make(chan struct{}, 1), followers: map[events.Owner]map[*Follower]struct{}{}}
}

// Streams returns how many followers are not closed.
func (f *Feed) Streams() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

type Page struct {
	Events []byte // the elements of a JSON array
	Cursor uint64 // cursor of the last event, or the cursor that the page was to begin after
	count  int    // number of events
}

// Empty reports whether the page has no events.
func (p *Page) Empty() bool { return len(p.Events) == 0 }

func (p *Page) AppendJSON(b []byte) []byte {
	b = append(append(b, `{"events":[`...), p.Events...)
	return append(strconv.AppendUint(append(b, `],"cursor":"`...), p.Cursor, 10), `"}`...)
}

// add appends the events of a message.
func (p *Page) add(r eventlog.Record) error {
	batch, err := events.DecodeBatch(r.Payload)
	for i := 0; i < len(batch) && err == nil; i++ {
		if p.count++; p.count > 1 {
			p.Events = append(p.Events, ',')
		}
		p.Events, err = events.AppendPublic(p.Events, &batch[i])
	}
	if err != nil {
		return fmt.Errorf("sequence %d: %w", r.Seq, err)
	}
	p.Cursor = r.Seq
	return nil
}

var errFull = errors.New("the page is full")

// Page returns the owner's events after a cursor, oldest first: limit events, and the
// rest of the last message. It may return fewer. A page without events is the end.
func (f *Feed) Page(ctx context.Context, owner events.Owner, after uint64, limit int) (Page, error) {
	page := Page{Cursor: after}
	err := f.cfg.Log.OwnerTail(ctx, events.FamilyAny, owner, after, func(r eventlog.Record) error {
		if err := page.add(r); err != nil {
			return err
		}
		// A page ends after the message that exceeds this.
		if page.count >= limit || len(page.Events) >= 1<<20 {
			return errFull
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFull) {
		return Page{}, fmt.Errorf("page of events: %w", err)
	}
	return page, nil
}

// ErrCursor: the log has no message as new as the cursor.
var ErrCursor = errors.New("cursor is not one that this API gave out")

// Gave returns ErrCursor if a cursor can't have been given out. It would hide all events up
// to it.
func (f *Feed) Gave(ctx context.Context, cursor uint64) error {
	head, err := f.cfg.Log.Head(ctx)
	if err == nil && cursor > head {
		err = ErrCursor
	}
	return err
}

// End returns the cursor of the owner's newest message.
func (f *Feed) End(ctx context.Context, owner events.Owner) (uint64, error) {
	return f.cfg.Log.OwnerHead(ctx, events.FamilyAny, owner)
}

// hidden are the members of an event's data that only a session of the owner may see.
// The name of an app is the label of its key.
var hidden = []string{"label", "app", "prefix", "sessionId"}

// HideAccess removes from the page what identifies other credentials: the labels, the apps
// and the beginnings of API keys, and the ids of sessions.
func (p *Page) HideAccess() error {
	var all []map[string]jsontext.Value
	if err := json.Unmarshal(append(append([]byte("["), p.Events...), ']'), &all); err != nil {
		return fmt.Errorf("page of events: %w", err)
	}
	for _, event := range all {
		var data map[string]jsontext.Value
		if err := json.Unmarshal(event["data"], &data); err != nil {
			return fmt.Errorf("data of an event: %w", err)
		}
		for _, name := range hidden {
			delete(data, name)
		}
		for name, value := range data {
			var by events.Via // of whatever name: what a session did; metadata may look like it
			if name != "metadata" && json.Unmarshal(value, &by) == nil && by.Kind == events.ViaSession {
				data[name] = jsontext.Value(`{"kind":"session"}`)
			}
		}
		var err error
		if event["data"], err = json.Marshal(data, json.Deterministic(true)); err != nil {
			return err
		}
	}
	text, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		return err
	}
	p.Events = text[1 : len(text)-1]
	return nil
}
