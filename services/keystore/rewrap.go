package keystore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
)

// listPatience is how long a Rewrap waits for the next entry of the list. A server
// that can't read one sends nothing, and does not say so.
const listPatience = 30 * time.Second

// Rewrapped is what a Rewrap did.
type Rewrapped struct {
	Entries uint64 // looked at
	Fresh   uint64 // given a new wrapping
	Already uint64 // wrapped by the wrapping key before
	Gone    uint64 // forgotten meanwhile
}

// Rewrap gives every data key that another master key wraps a new wrapping
// under the first one. Services that have both go on all the while: a data key
// does not change, only its wrapping does.
//
// Every entry is replaced only if it is still the one that was read, so an
// owner who is forgotten meanwhile stays forgotten. A crash leaves some entries
// under each master key; run it again. It needs to list the bucket, which is
// an administrator's right on a cluster with permissions.
func (s *Store) Rewrap(ctx context.Context, progress func(Rewrapped)) (Rewrapped, error) {
	var done Rewrapped
	// Not ListKeys, whose list ends alike where it is complete and where the
	// connection is gone.
	entries, err := s.bucket.WatchAll(ctx, jetstream.IgnoreDeletes(), jetstream.MetaOnly())
	if err != nil {
		return done, fmt.Errorf("list data keys: %w: %w", ErrUnavailable, err)
	}
	defer func() { _ = entries.Stop() }()
	patience := time.NewTimer(listPatience)
	defer patience.Stop()
	for {
		select {
		case <-ctx.Done():
			return done, ctx.Err()
		case <-patience.C:
			return done, fmt.Errorf("list data keys: %w: no more of them came for %v, and not all did", ErrUnavailable, listPatience)
		case entry, open := <-entries.Updates():
			switch {
			case !open && ctx.Err() != nil:
				return done, ctx.Err()
			case !open:
				return done, fmt.Errorf("list data keys: %w: the list ended early", ErrUnavailable)
			case entry == nil: // the end of what is there
				return done, nil
			}
			if err := s.rewrap(ctx, events.Owner(entry.Key()), &done); err != nil {
				return done, err
			}
			if progress != nil {
				progress(done)
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
		raw, erasures, err := s.unwrapRaw(owner, stored.Value())
		if err != nil {
			return fmt.Errorf("rewrap: %w", err)
		}
		value, err := s.wrap(owner, raw, erasures)
		if err != nil {
			return err
		}
		_, err = s.bucket.Update(ctx, string(owner), value, stored.Revision())
		switch {
		case err == nil:
			done.Fresh++
			return nil
		case isMoved(err):
			continue // forgotten, or rewrapped by another; look again
		default:
			return fmt.Errorf("rewrap %s: %w: %w", owner, ErrUnavailable, err)
		}
	}
}

// isMoved: the entry is not the one that was read any more.
func isMoved(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, jetstream.ErrKeyExists) || (errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant))
}

// Count is about how many data keys there are; forgotten ones leave a mark that
// is counted too.
func (s *Store) Count(ctx context.Context) (uint64, error) {
	status, err := s.bucket.Status(ctx)
	if err != nil {
		return 0, fmt.Errorf("count data keys: %w: %w", ErrUnavailable, err)
	}
	return status.Values(), nil
}
