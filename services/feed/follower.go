package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/services/quota"
)

// Follower is one reader of an owner's events. It belongs to one goroutine.
type Follower struct {
	feed   *Feed
	owner  events.Owner
	cursor uint64
	limit  int
	news   chan Page // closed when the follower is dropped; nil before it subscribes
	behind bool      // the log may hold events after cursor that news lacks
}

// Follow returns a follower of the owner's events after a cursor. Its pages have limit
// events, as those of [Feed.Page]. The caller must close it.
func (f *Feed) Follow(owner events.Owner, after uint64, limit int) (*Follower, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[owner] >= maxPerOwner {
		return nil, &quota.ExceededError{Of: "open event streams of one owner", Limit: maxPerOwner, Wait: 10 * time.Second}
	}
	select {
	case f.slots <- struct{}{}:
		f.open[owner]++
		return &Follower{feed: f, owner: owner, cursor: after, limit: limit, behind: true}, nil
	default:
		return nil, ErrTooMany
	}
}

func (w *Follower) Close() {
	f := w.feed
	f.mu.Lock()
	f.dropLocked(w)
	if f.open[w.owner]--; f.open[w.owner] == 0 {
		delete(f.open, w.owner)
	}
	f.mu.Unlock()
	<-f.slots
}

// Next waits for events of the owner. It returns each event once, in the order of the
// log.
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
			case page.Cursor <= w.cursor: // already read from the log
			case page.first <= w.cursor: // partly read from the log
				w.behind = true
			case page.count > w.limit && page.first < page.Cursor: // of several messages
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

// catchUp subscribes first and then reads the log: news holds the messages that are too
// new for the read.
func (w *Follower) catchUp(ctx context.Context) (Page, error) {
	w.feed.subscribe(w)
	page, err := w.feed.Page(ctx, w.owner, w.cursor, w.limit)
	if err == nil {
		w.cursor, w.behind = page.Cursor, !page.Empty()
	}
	return page, err
}

// subscribe makes the tail send new events to a follower, unless it already does.
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
	f.again()
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

// Run follows the log while there are followers, until ctx ends.
func (f *Feed) Run(ctx context.Context) {
	for {
		select {
		case <-f.begun:
		case <-ctx.Done():
			return
		}
		err := f.tail(ctx)
		if err == nil || errors.Is(err, errNoFollower) || ctx.Err() != nil {
			continue
		}
		f.cfg.Logger.Warn("event streams are interrupted", "err", err)
		if !eventlog.Pause(ctx, pause) {
			return
		}
		f.again()
	}
}

// errNoFollower ends the tail because there are no followers.
var errNoFollower = errors.New("there is no follower")

// tail delivers messages that enter the log from now on. Followers that subscribed
// earlier may have read the log before the tail began, so they are dropped and read it
// again.
func (f *Feed) tail(ctx context.Context) error {
	head, err := f.cfg.Log.Head(ctx)
	if err != nil {
		return err
	}
	f.dropAll()
	return f.cfg.Tail.Follow(ctx, eventlog.FollowConfig{From: head + 1, Poll: true}, func(s eventlog.Slice) error {
		news, err := f.read(s)
		if err != nil {
			return err
		}
		if len(news) > 0 && f.cfg.Sync != nil {
			if err := f.cfg.Sync(ctx); err != nil {
				return err
			}
		}
		return f.deliver(news)
	})
}

// read returns a slice's events of owners who are followed.
func (f *Feed) read(s eventlog.Slice) (map[events.Owner]*Page, error) {
	news := map[events.Owner]*Page{}
	for _, r := range s.Records {
		subject, err := events.ParseSubject(r.Subject)
		if err != nil {
			return nil, fmt.Errorf("sequence %d: %w", r.Seq, err)
		}
		if !f.isFollowed(subject.Owner) {
			continue
		}
		if news[subject.Owner] == nil {
			news[subject.Owner] = &Page{}
		}
		if err := news[subject.Owner].add(r); err != nil {
			return nil, err
		}
	}
	return news, nil
}

func (f *Feed) isFollowed(owner events.Owner) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.live[owner]) > 0
}

// deliver never waits for a follower: it drops a follower that has too much to read.
func (f *Feed) deliver(news map[events.Owner]*Page) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for owner, page := range news {
		for w := range f.live[owner] {
			if len(page.Events) > 32<<10 || len(w.news) == undelivered {
				f.dropLocked(w)
				continue
			}
			w.news <- *page
		}
	}
	if len(f.slots) == 0 {
		return errNoFollower
	}
	return nil
}

func (f *Feed) dropAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, of := range f.live {
		for w := range of {
			f.dropLocked(w)
		}
	}
}

// again makes the tail begin again for the current followers.
func (f *Feed) again() {
	select {
	case f.begun <- struct{}{}:
	default:
	}
}
