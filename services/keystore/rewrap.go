package keystore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// Rewrapped counts the entries of a Rewrap.
type Rewrapped struct {
	Entries uint64 // looked at
	Fresh   uint64 // given a new wrapping
	Already uint64 // wrapped by the wrapping key before
	Gone    uint64 // destroyed meanwhile
	Damaged uint64 // that no master key opens: they stay as they are
}

// ErrStillUsed: after a Rotate, entries need another master key than the first one.
var ErrStillUsed = errors.New("data keys still need another master key")

// Rotate is a Rewrap after which no revision that needs another master key than the first
// one is left, and the first one alone opens every entry. If it returns nil, the other
// master key may be destroyed. A crash at any step leaves entries that the two open
// together; run it again.
func (s *Store) Rotate(ctx context.Context, progress func(Rewrapped)) (done Rewrapped, err error) {
	erase := func() error {
		if err := s.settle(ctx); err != nil { // what replaced an older revision must be on stable storage before
			return err
		}
		return Each(ctx, s.bucket, func(owner events.Owner) error { return eraseOlder(ctx, s.cfg.Stream, owner) })
	}
	if err := erase(); err != nil { // a third revision would drop the first without overwriting it
		return done, err
	}
	if done, err = s.Rewrap(ctx, progress); err != nil {
		return done, err
	}
	if err := erase(); err != nil {
		return done, err
	}
	checked, err := s.CheckAll(ctx, func(Checked) {})
	switch {
	case err != nil:
		return done, err
	case len(checked.Other) > 0:
		return done, fmt.Errorf("%w: %d were wrapped with it meanwhile, by a service that still has it as MASTER_KEY", ErrStillUsed, checked.Entries-checked.Opened-checked.Damaged)
	case checked.Damaged > 0:
		return done, fmt.Errorf("%w: %d data keys do not open with the new master key", ErrSealed, checked.Damaged)
	}
	return done, nil
}

// Rewrap wraps every data key that another master key wraps with the first one. Services
// that have both keys keep running: only the wrapping changes, not the data key.
//
// An entry is replaced only if it is still the one that was read, so a key that is
// destroyed meanwhile stays destroyed. The bucket keeps the old revision, see Rotate. A
// crash leaves some entries under each master key; run it again. One damaged entry does not
// keep the others under a key that may be known to a thief: the error, ErrSealed, comes
// after the last entry.
//
// Rewrap lists the bucket, which only an administrator may do on a cluster with permissions.
func (s *Store) Rewrap(ctx context.Context, progress func(Rewrapped)) (done Rewrapped, err error) {
	var damaged error // of the first
	err = Each(ctx, s.bucket, func(owner events.Owner) error {
		err := s.rewrap(ctx, owner, &done)
		if errors.Is(err, ErrSealed) {
			done.Damaged++
			damaged = cmp.Or(damaged, err)
			err = nil
		}
		if err == nil && progress != nil {
			progress(done)
		}
		return err
	})
	if err == nil && damaged != nil {
		err = fmt.Errorf("%d data keys are damaged; restore the keystore's backup, or forget their owners; the first: %w", done.Damaged, damaged)
	}
	return done, err
}

// Each calls do once with every owner who has a key in the bucket, or had one a moment ago.
func Each(ctx context.Context, bucket jetstream.KeyValue, do func(events.Owner) error) error {
	// Not ListKeys: its list ends the same way when it is complete and when the connection
	// is lost. With the history, because a client that lost its consumer gets all revisions from
	// there on, and ends the list after as many messages as it expected.
	entries, err := bucket.WatchAll(ctx, jetstream.IncludeHistory(), jetstream.IgnoreDeletes(), jetstream.MetaOnly())
	if err != nil {
		return fmt.Errorf("list data keys: %w: %w", ErrUnavailable, err)
	}
	defer func() { _ = entries.Stop() }()
	// This is how long the next entry may take. A server that can't read an entry sends
	// nothing and reports no error.
	const listPatience = 30 * time.Second
	patience := time.NewTimer(listPatience)
	defer patience.Stop()
	seen := map[events.Owner]bool{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patience.C:
			return fmt.Errorf("list data keys: %w: the bucket sent %d keys, then nothing for %v", ErrUnavailable, len(seen), listPatience)
		case entry, open := <-entries.Updates():
			switch {
			case !open && ctx.Err() != nil:
				return ctx.Err()
			case !open:
				return fmt.Errorf("list data keys: %w: the list ended early", ErrUnavailable)
			case entry == nil: // all existing entries were sent
				return nil
			}
			// An operator's try of the bucket is no key, and must not stop a rotation.
			if owner, err := events.ParseOwner(entry.Key()); err == nil && !seen[owner] {
				seen[owner] = true
				if err := do(owner); err != nil {
					return err
				}
			}
			patience.Reset(listPatience)
		}
	}
}

func (s *Store) rewrap(ctx context.Context, owner events.Owner, done *Rewrapped) error {
	done.Entries++
	for {
		stored, err := s.bucket.Get(ctx, string(owner))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			// Check that the key is really gone: after a rewrap, the operator drops
			// the old master key.
			if _, err := s.marked(ctx, owner); err != nil {
				return fmt.Errorf("rewrap %s: %w: %w", owner, ErrUnavailable, err)
			}
			done.Gone++
			return nil
		}
		if err != nil {
			return fmt.Errorf("rewrap %s: %w: %w", owner, ErrUnavailable, err)
		}
		var e entry
		if err := json.Unmarshal(stored.Value(), &e); err == nil && e.Master == s.wrapID {
			done.Already++
			return nil
		}
		x, err := s.unwrap(ctx, owner, stored.Value())
		if err != nil {
			return fmt.Errorf("rewrap: %w", err)
		}
		value, err := s.wrap(ctx, owner, x)
		if err != nil {
			return err
		}
		_, err = s.bucket.Update(ctx, string(owner), value, stored.Revision())
		switch {
		case err == nil:
			done.Fresh++
			return nil
		case eventlog.IsWrongSequence(err):
			continue // destroyed, or rewrapped by another process: read it again
		default:
			return fmt.Errorf("rewrap %s: %w: %w", owner, ErrUnavailable, err)
		}
	}
}
