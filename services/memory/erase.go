package memory

import (
	"context"
	"errors"
	"slices"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/keystore"
)

// erasePasses bounds how often Erase begins again because of a sign-in meanwhile. Six
// clients that sign in again at once whenever they are refused have won five races in a row.
const erasePasses = 50

// Erase makes all texts of an owner unreadable for good, and returns how many leaves
// that were. Access ends, the data key is destroyed, and then the log says so: from
// that event on no answer has a text from before, on any replica.
//
// A crash in between leaves texts that can't be read and an owner who has to ask
// again. It never leaves an event that says more than was done.
func (s *Service) Erase(ctx context.Context, owner events.Owner) (uint64, error) {
	standing, err := s.Commands.Standing(ctx, owner)
	if err != nil || !standing.Registered {
		return 0, err
	}
	erase := &command.EraseOwner{}
	for range erasePasses {
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

// EnsureDataKey implements signin.DataKeys. A key from before the last erasure is destroyed,
// and no other: one that another sign-in has made meanwhile may have sealed something.
func (s *Service) EnsureDataKey(ctx context.Context, owner events.Owner, erasures int) error {
	for {
		_, err := s.Keys.FindOrCreate(ctx, owner, erasures)
		if !errors.Is(err, keystore.ErrErased) || s.DestroyKey == nil {
			return err
		}
		if err := s.DestroyKey(ctx, owner, erasures); err != nil {
			return err
		}
	}
}

// without is which leaves of a log have no text any more.
type without struct {
	erased    uint64   // all before this one
	retracted []uint64 // and these after it, rising
}

func (w without) text(leaf uint64) bool {
	_, retracted := slices.BinarySearch(w.retracted, leaf)
	return leaf < w.erased || retracted
}

// before counts the leaves without text below a size.
func (w without) before(size uint64) uint64 {
	retracted, _ := slices.BinarySearch(w.retracted, size)
	return min(w.erased, size) + uint64(retracted)
}
