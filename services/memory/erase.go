package memory

import (
	"context"
	"errors"
	"slices"

	"github.com/memory-ledger/ledger/events"
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

// EnsureDataKey implements signin.DataKeys. It destroys a key from before the last erasure,
// but no later key: another sign-in may have made that one meanwhile, and memories may be
// sealed with it. command.ErrErased: the owner erased everything meanwhile; start over.
func (s *Service) EnsureDataKey(ctx context.Context, owner events.Owner, erasures int) error {
	for {
		_, err := s.Keys.FindOrCreateWhile(ctx, owner, erasures, func(ctx context.Context) error {
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

// without is the set of leaves whose text is gone.
type without struct {
	erased    uint64   // all leaves before this one
	retracted []uint64 // and these later leaves, rising
}

func (w without) text(leaf uint64) bool {
	_, retracted := slices.BinarySearch(w.retracted, leaf)
	return leaf < w.erased || retracted
}

// before counts the leaves without text below a log size.
func (w without) before(size uint64) uint64 {
	retracted, _ := slices.BinarySearch(w.retracted, size)
	return min(w.erased, size) + uint64(retracted)
}
