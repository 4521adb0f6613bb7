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
	news   chan struct{} // holds an element if the log may have events that Next did not look for
}

// Follow returns a follower of the owner's events after a cursor. Its pages have limit
// events, as those of [Feed.Page]. The caller must close it.
func (f *Feed) Follow(owner events.Owner, after uint64, limit int) (*Follower, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case len(f.followers[owner]) >= maxPerOwner:
		return nil, &quota.ExceededError{Of: "open event streams of one owner", Limit: maxPerOwner, Wait: 10 * time.Second}
	case f.open >= f.cfg.Max:
		return nil, ErrTooMany
	}
	w := &Follower{feed: f, owner: owner, cursor: after, limit: limit, news: make(chan struct{}, 1)}
	if f.followers[owner] == nil {
		f.followers[owner] = map[*Follower]struct{}{}
	}
	f.followers[owner][w] = struct{}{}
	f.open++
	signal(f.begun)
	return w, nil
}

func (w *Follower) Close() {
	f := w.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open--
	if delete(f.followers[w.owner], w); len(f.followers[w.owner]) == 0 {
		delete(f.followers, w.owner)
	}
}

// Next waits for events of the owner. It returns each event once, in the order of the
// log.
func (w *Follower) Next(ctx context.Context) (Page, error) {
	for {
		page, err := w.feed.Page(ctx, w.owner, w.cursor, w.limit)
		switch {
		case ctx.Err() != nil:
			return Page{}, ctx.Err()
		case err != nil:
			return Page{}, err
		case !page.Empty():
			w.cursor = page.Cursor
			return page, nil
		}
		select {
		case <-w.news:
		case <-ctx.Done():
			return Page{}, ctx.Err()
		}
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
		signal(f.begun)
	}
}

// errNoFollower ends the tail because there are no followers.
var errNoFollower = errors.New("there is no follower")

// tail wakes the followers of owners whose messages enter the log from now on, and first
// all followers: they may have read the log before the tail began.
func (f *Feed) tail(ctx context.Context) error {
	head, err := f.cfg.Log.Head(ctx)
	if err != nil {
		return err
	}
	f.wakeAll()
	return f.cfg.Tail.Follow(ctx, eventlog.FollowConfig{From: head + 1, Poll: true}, f.wake)
}

func (f *Feed) wakeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, of := range f.followers {
		for w := range of {
			signal(w.news)
		}
	}
}

// wake wakes the followers of the owners in a slice of the log.
func (f *Feed) wake(s eventlog.Slice) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == 0 {
		return errNoFollower
	}
	for _, r := range s.Records {
		subject, err := events.ParseSubject(r.Subject)
		if err != nil {
			return fmt.Errorf("sequence %d: %w", r.Seq, err)
		}
		for w := range f.followers[subject.Owner] {
			signal(w.news)
		}
	}
	return nil
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
