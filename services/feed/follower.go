package feed

import (
	"context"

	"github.com/memory-ledger/ledger/events"
)

// Follower is one reader of an owner's events. It belongs to one goroutine.
type Follower struct {
	feed   *Feed
	owner  events.Owner
	cursor uint64
	news   chan Page // closed when the follower is dropped; nil before it subscribed
	behind bool      // the log may hold what neither cursor nor news has
}

// Follow returns a follower of the owner's events after a cursor. Close it.
func (f *Feed) Follow(owner events.Owner, after uint64) (*Follower, error) {
	select {
	case f.slots <- struct{}{}:
		return &Follower{feed: f, owner: owner, cursor: after, behind: true}, nil
	default:
		return nil, ErrTooMany
	}
}

// Close ends the follower.
func (w *Follower) Close() {
	w.feed.drop(w)
	<-w.feed.slots
}

// Next waits for events of the owner. Each event comes once, in the order of the log.
func (w *Follower) Next(ctx context.Context) (Page, error) {
	for {
		if w.behind {
			page, err := w.catchUp(ctx)
			if err != nil || !page.Empty() {
				return page, err
			}
		}
		select {
		case page, open := <-w.news:
			switch {
			case !open:
				w.behind = true
			case page.Cursor <= w.cursor: // was read from the log
			case page.first <= w.cursor: // a part of it was
				w.behind = true
			default:
				w.cursor = page.Cursor
				return page, nil
			}
		case <-ctx.Done():
			return Page{}, ctx.Err()
		}
	}
}

// catchUp subscribes, and then reads the log: what the read is too early for is in the
// news.
func (w *Follower) catchUp(ctx context.Context) (Page, error) {
	w.feed.subscribe(w)
	page, err := w.feed.Page(ctx, w.owner, w.cursor, MaxLimit)
	if err == nil {
		w.cursor, w.behind = page.Cursor, !page.Empty()
	}
	return page, err
}

// subscribe lets the tail tell a follower what is new, unless it does already.
func (f *Feed) subscribe(w *Follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, live := f.live[w.owner][w]; live {
		return
	}
	w.news = make(chan Page, undelivered)
	if f.live[w.owner] == nil {
		f.live[w.owner] = map[*Follower]struct{}{}
	}
	f.live[w.owner][w] = struct{}{}
	select {
	case f.begun <- struct{}{}:
	default:
	}
}

// drop takes a follower from the tail.
func (f *Feed) drop(w *Follower) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(w)
}

func (f *Feed) dropLocked(w *Follower) {
	of := f.live[w.owner]
	if _, live := of[w]; !live {
		return
	}
	close(w.news)
	if delete(of, w); len(of) == 0 {
		delete(f.live, w.owner)
	}
}
