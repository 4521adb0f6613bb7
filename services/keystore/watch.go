package keystore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
)

const (
	// WatchInterval is how often Watch looks for destroyed keys.
	WatchInterval = time.Second
	// maxUnwatched is how long a cached key is used while Watch can't tell whether it was
	// destroyed. It is longer than WatchInterval, so that one lost answer does not send
	// every request to the bucket.
	maxUnwatched = 5 * time.Second
	// lookTimeout bounds one request of Watch.
	lookTimeout = 2 * time.Second
)

// Watch drops destroyed keys from memory until ctx ends. At the start and at every tick it
// asks the bucket's stream for entries that are new since the stream was opened. No key may
// have been read before the stream was opened.
//
// While Watch gets no answers, a cached key is used for five seconds and then read again. A
// consumer would deliver changes sooner, but its owner chooses the subject that the server
// delivers to, and could so write to any subject. No service has the right to make one.
func (s *Store) Watch(ctx context.Context, tick <-chan time.Time) {
	seen := s.cfg.Stream.CachedInfo().State.LastSeq
	for {
		if last, err := s.look(ctx, seen); err == nil {
			seen = last
		}
		select {
		case <-ctx.Done():
			return
		case <-tick:
		}
	}
}

// look drops the keys whose entries changed after a sequence, and returns the sequence that
// it has read up to.
func (s *Store) look(ctx context.Context, after uint64) (uint64, error) {
	began := s.cfg.Now()
	last, err := lastSequence(ctx, s.cfg.Stream)
	if err != nil {
		return 0, err
	}
	if last < after { // another bucket
		s.forgets.Add(1)
		s.cache.Purge()
		s.cfg.Forgotten("")
		after = last
	}
	for after < last {
		entry, err := nextEntry(ctx, s.cfg.Stream, after)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break // erased, and the mark is not published yet
		}
		if err != nil {
			return 0, err
		}
		after = entry.Sequence
		s.changed(events.Owner(strings.TrimPrefix(entry.Subject, subjectPrefix)), entry)
	}
	s.watched.Store(&began) // with its monotonic reading: the wall clock may be set back
	return after, nil
}

// changed drops an owner's cached key, unless the entry holds that same key, and what was
// derived from the owner's texts: one of them may have been forgotten. A slower lookup may
// still have the entry from before, so it counts also if the cached key stays.
func (s *Store) changed(owner events.Owner, entry *jetstream.RawStreamMsg) {
	s.forgets.Add(1)
	if key, ok := s.cache.Peek(owner); !ok || key.revision != entry.Sequence {
		s.cache.Remove(owner)
	}
	s.cfg.Forgotten(owner)
}

func lastSequence(ctx context.Context, stream jetstream.Stream) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	info, err := stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("watch the keystore: %w", err)
	}
	return info.State.LastSeq, nil
}

func nextEntry(ctx context.Context, stream jetstream.Stream, after uint64) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return stream.GetMsg(ctx, after+1, jetstream.WithGetMsgSubject(allSubjects))
}

// trusted reports whether a key that was last read at the time seen may be used without
// reading it again.
func (s *Store) trusted(seen, now time.Time) bool {
	age := now.Sub(seen)
	if age >= s.cfg.MaxAge {
		return false
	}
	if age < maxUnwatched {
		return true
	}
	watched := s.watched.Load()
	return watched != nil && now.Sub(*watched) < maxUnwatched
}
