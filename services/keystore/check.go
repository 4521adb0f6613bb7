package keystore

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
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
	err := Each(ctx, s.bucket, func(owner events.Owner) error {
		stored, err := s.explained(ctx, owner)
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

// PutBack stores a backup's entry of an owner whose key is lost or damaged, wrapped by the first
// master key, and reports whether it did. A lost key has left no mark of a destroyed one. A
// damaged one does not open, although it names no other master key; it stays if the backup's
// does not open either, or is from before an erasure that the damaged one counts.
func (s *Store) PutBack(ctx context.Context, copied jetstream.KeyValueEntry) (bool, error) {
	owner := events.Owner(copied.Key())
	stored, err := s.explained(ctx, owner)
	if err == nil {
		_, err = s.unwrap(ctx, owner, stored.Value())
	}
	switch {
	case err == nil, errors.Is(err, ErrForgotten), errors.Is(err, ErrMasterKey):
		return false, nil
	case !errors.Is(err, ErrNoKey) && !errors.Is(err, ErrSealed):
		return false, err
	}
	x, err := s.unwrap(ctx, owner, copied.Value())
	if errors.Is(err, ErrSealed) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	revision := uint64(0) // only if there is nothing
	if stored != nil {
		if is, err := parse(owner, stored.Value()); err == nil && x.erasures < is.Erasures {
			return false, nil
		}
		// A third revision would drop the first without overwriting it.
		if err := eraseOlder(ctx, s.cfg.Stream, owner); err != nil {
			return false, err
		}
		revision = stored.Revision()
	}
	value, err := s.wrap(ctx, owner, x) // the backup may be from before a rotation
	if err != nil {
		return false, err
	}
	_, err = s.bucket.Update(ctx, string(owner), value, revision)
	if eventlog.IsWrongSequence(err) { // there is a newer one
		return false, nil
	}
	return err == nil, err
}
