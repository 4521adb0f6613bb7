package memory

import (
	"context"
	"errors"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/retractions"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
)

// Erase makes all texts of an owner unreadable for good, and returns how many leaves they
// had. It ends all access, destroys the data key, and then appends the event. From that
// event on, no replica returns an earlier text.
//
// A crash in between leaves unreadable texts, and the owner must ask again. It never leaves
// an event that claims more than was done.
func (s *Service) Erase(ctx context.Context, owner events.Owner) (uint64, error) {
	standing, err := s.Commands.Standing(ctx, owner)
	if err != nil || !standing.Registered {
		return 0, err
	}
	erase := &command.EraseOwner{}
	// A concurrent sign-in may win a race. Six clients that sign in again whenever they are
	// refused have won five in a row.
	for range 50 {
		if err := s.Commands.EndAllAccess(ctx, owner); err != nil {
			return 0, err
		}
		if err := s.DestroyKey(ctx, owner, keystore.AnyKey); err != nil {
			return 0, err
		}
		if err = s.Commands.Execute(ctx, owner, erase); !errors.Is(err, command.ErrAccessAlive) {
			break
		}
	}
	return erase.Erased, err
}

// Forget makes the text of one memory unreadable for good. The event comes
// first: from then on, no replica returns the text, and a service that finds the memory's
// key destroys it. So a crash in between leaves the rest to FinishForgetting, and so does a
// client that asks again.
func (s *Service) Forget(ctx context.Context, r Reader, credential command.Credential, id string) error {
	m, err := s.find(ctx, r, id)
	if err != nil {
		return err
	}
	extent, err := s.extentWith(ctx, r, m)
	switch {
	case err != nil:
		return err
	case m.LeafIndex < extent.erased:
		return ErrRetracted
	case m.Sealing != events.SealedByLeaf:
		return ErrNotAlone
	}
	if err := s.intact(ctx, r, m); err != nil {
		return err
	}
	key, err := s.Keys.Find(ctx, r.Owner)
	if err == nil {
		err = key.Room(m.LeafIndex)
	}
	if err != nil {
		return err
	}
	err = s.Commands.Execute(ctx, r.Owner, &command.ForgetMemory{MemoryID: m.ID, LeafIndex: m.LeafIndex, Credential: credential})
	if err != nil {
		return err
	}
	return s.Keys.DestroyLeaves(ctx, r.Owner, m.LeafIndex)
}

// FinishForgetting destroys the keys of memories that the log calls forgotten in messages
// after a sequence: a service may have ended after such an event, and a keystore that was
// restored from an old backup still has the keys. It returns the sequence to go on after. It
// goes on after an error, and reports it.
func (s *Service) FinishForgetting(ctx context.Context, after uint64) (uint64, error) {
	all, err := retractions.ForgottenAfter(ctx, s.Pool, after)
	if err != nil {
		return after, err
	}
	var failed []error
	for _, f := range all {
		if err := s.Keys.DestroyLeaves(ctx, f.Owner, f.Leaves...); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > 0 {
		return after, errors.Join(failed...)
	}
	for _, f := range all {
		after = max(after, f.Seq)
	}
	return after, nil
}

// EnsureDataKey makes a data key for a sign-in. It destroys a key from before the last erasure,
// but no later key: another sign-in may have made that one meanwhile, and memories may be
// sealed with it. command.ErrErased: the owner erased everything meanwhile; start over.
func (s *Service) EnsureDataKey(ctx context.Context, owner events.Owner, erasures int) error {
	for {
		_, err := s.Keys.FindOrCreate(ctx, owner, erasures, func(ctx context.Context) error {
			standing, err := s.Commands.Standing(ctx, owner)
			if err == nil && standing.Erasures != erasures {
				err = command.ErrErased
			}
			return err
		})
		if !errors.Is(err, keystore.ErrErased) || s.DestroyKey == nil {
			return err
		}
		if err := s.DestroyKey(ctx, owner, erasures); err != nil {
			return err
		}
	}
}
