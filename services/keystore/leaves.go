package keystore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// FindToSeal is Find for a caller who seals. The key's entry is on stable storage: what was
// sealed with an entry that got lost could never be opened.
func (s *Store) FindToSeal(ctx context.Context, owner events.Owner) (*OwnerKey, error) {
	key, err := s.Find(ctx, owner)
	if err != nil || key.durable.Load() {
		return key, err
	}
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	key.durable.Store(true)
	return key, nil
}

// DestroyLeaves destroys the keys of single leaves: nothing opens their bodies again, no
// matter which other keys a reader has. The exceptions are those of Forget. It drops what
// this process has in memory, and returns when the change is on stable storage. Destroying
// a key again, or one of an owner whose key is gone, changes nothing. The log must name the
// leaves already: a backup of the bucket still has their keys, and a service that starts
// compares the two.
//
// ErrTooManyForgotten: the owner's entry would be too long, and was not changed.
func (s *Store) DestroyLeaves(ctx context.Context, owner events.Owner, leaves ...uint64) error {
	if err := s.drop(ctx, owner, s.destroyLeaves(ctx, owner, leaves)); err != nil {
		return fmt.Errorf("forget memories of %s: %w", owner, err)
	}
	return nil
}

// drop drops an owner from memory whose keys were destroyed, also if an error came after it,
// and makes the change durable.
func (s *Store) drop(ctx context.Context, owner events.Owner, err error) error {
	s.forgets.Add(1)
	s.cache.Remove(owner)
	s.cfg.Forgotten(owner)
	if err == nil {
		err = s.settle(ctx)
	}
	return err
}

// destroyLeaves stores the new entry before it erases the old one: in between, a crash
// leaves both, and not neither. The next call erases the old one.
func (s *Store) destroyLeaves(ctx context.Context, owner events.Owner, leaves []uint64) error {
	for range maxTries {
		if err := s.settle(ctx); err != nil { // before the old entry is erased, the new one must be on stable storage
			return err
		}
		if err := eraseOlder(ctx, s.cfg.Stream, owner); err != nil {
			return err
		}
		stored, err := s.explained(ctx, owner)
		if errors.Is(err, ErrForgotten) {
			return nil
		}
		if err != nil {
			return err
		}
		x, err := s.unwrap(ctx, owner, stored.Value())
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(leaves, func(leaf uint64) bool { return x.nodes.above(leaf) != nil }) {
			return nil
		}
		for _, leaf := range leaves {
			x.nodes = x.nodes.without(leaf)
		}
		value, err := s.wrap(ctx, owner, x)
		if err != nil {
			return err
		}
		if len(value) > maxEntry-1<<10 { // beside headers
			return ErrTooManyForgotten
		}
		if _, err := s.bucket.Update(ctx, string(owner), value, stored.Revision()); err != nil && !eventlog.IsWrongSequence(err) {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
	return fmt.Errorf("%w: the entry of %s changed %d times", ErrUnavailable, owner, maxTries)
}

// eraseOlder makes the server overwrite all revisions of an owner's entry but the newest.
func eraseOlder(ctx context.Context, stream jetstream.Stream, owner events.Owner) error {
	subject := subjectPrefix + string(owner)
	refused := uint64(0)
	for {
		newest, err := stream.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		var oldest *jetstream.RawStreamMsg
		if err == nil {
			oldest, err = stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
		}
		if err != nil {
			return fmt.Errorf("look for older revisions: %w: %w", ErrUnavailable, err)
		}
		if oldest.Sequence >= newest.Sequence {
			return nil
		}
		if err := stream.SecureDeleteMsg(ctx, oldest.Sequence); err != nil {
			if refused == oldest.Sequence {
				return fmt.Errorf("erase an older revision: %w: %w", ErrUnavailable, err)
			}
			refused = oldest.Sequence // another process may have erased it meanwhile
		}
	}
}
