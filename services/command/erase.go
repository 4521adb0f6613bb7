package command

import (
	"cmp"
	"errors"
	"time"

	"github.com/memory-ledger/ledger/events"
)

// ErrAccessAlive: a session, key, or grant is alive, so the owner can't be erased yet.
var ErrAccessAlive = errors.New("the owner's access has not ended")

// ErrErased: the owner erased everything during a sign-in.
var ErrErased = errors.New("the owner had all erased meanwhile")

// ErrKeyErased: the memory is sealed with a data key that an erasure has destroyed. Seal it
// again with the present key.
var ErrKeyErased = errors.New("the data key was erased meanwhile")

// EraseOwner records that the texts of all leaves so far are unreadable. Before it, the
// data key was destroyed and all access was ended. No memory sealed with that key can
// follow the event: every credential that could write one has ended, and decisions refuse a
// memory that is sealed with an earlier key.
type EraseOwner struct {
	// Erased is the answer: how many leaves the log has.
	Erased uint64
}

func (c *EraseOwner) decide(s *State, now time.Time) (Decision, error) {
	for _, kind := range accessKinds {
		if d, err := (&EndAccess{Kind: kind}).decide(s, now); err != nil || len(d.Events) > 0 {
			return Decision{}, cmp.Or(err, ErrAccessAlive)
		}
	}
	c.Erased = s.Leaves
	return Decision{events.KindMemory, append(s.endImport(), &events.OwnerErased{Leaves: s.Leaves})}, nil
}
