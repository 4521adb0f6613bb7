package feed

import (
	"context"
	"errors"
	"fmt"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

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
