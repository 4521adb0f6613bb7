package keystore

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
)

// Checked counts the entries that CheckAll read.
type Checked struct {
	Entries uint64
	Opened  uint64            // by the store's first master key
	Other   map[string]uint64 // that another master key wraps, by its id
	Damaged uint64            // that name the first master key, and don't open
}

// CheckAll tries to open every entry, and changes none. Like Rewrap it lists the bucket.
func (s *Store) CheckAll(ctx context.Context, progress func(Checked)) (Checked, error) {
	done := Checked{Other: map[string]uint64{}}
	err := s.each(ctx, func(owner events.Owner) error {
		stored, err := s.stored(ctx, owner)
		if errors.Is(err, ErrNoKey) {
			err = s.absent(ctx, owner, err)
		}
		switch {
		case errors.Is(err, ErrForgotten): // since the list was made
			return nil
		case err != nil:
			return err
		}
		if err := s.checkEntry(ctx, owner, stored, &done); err != nil {
			return err
		}
		progress(done)
		return nil
	})
	return done, err
}

func (s *Store) checkEntry(ctx context.Context, owner events.Owner, stored jetstream.KeyValueEntry, done *Checked) error {
	e, err := parse(owner, stored.Value())
	if err == nil && e.Master == s.wrapID {
		_, err = s.unwrap(ctx, owner, stored.Value())
	}
	if errors.Is(err, ErrUnavailable) {
		return err
	}
	done.Entries++
	switch {
	case err != nil:
		done.Damaged++
	case e.Master != s.wrapID:
		done.Other[e.Master]++
	default:
		done.Opened++
	}
	return nil
}

// MayReplace reports whether a backup's entry of an owner may replace the one in use: that
// one does not open, although it names no other master key, and the backup's is not from
// before an erasure that it counts.
func (s *Store) MayReplace(ctx context.Context, stored, copied jetstream.KeyValueEntry) (bool, error) {
	owner := events.Owner(stored.Key())
	_, err := s.unwrap(ctx, owner, stored.Value())
	if err == nil || errors.Is(err, ErrMasterKey) {
		return false, nil
	}
	if !errors.Is(err, ErrSealed) {
		return false, err
	}
	is, unreadable := parse(owner, stored.Value())
	by, err := parse(owner, copied.Value())
	return err == nil && (unreadable != nil || by.Erasures >= is.Erasures), nil
}
