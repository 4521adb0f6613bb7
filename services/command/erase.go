package command

import (
	"cmp"
	"errors"
	"time"

	"github.com/memory-ledger/ledger/events"
)

// ErrAccessAlive: a session, key or grant is alive, so the owner can't be erased yet.
var ErrAccessAlive = errors.New("the owner's access has not ended")

// ErrErased: the owner had all erased while a sign-in was at work.
var ErrErased = errors.New("the owner had all erased meanwhile")

// EraseOwner records that the texts of all leaves so far can't be read any more. The
// data key was destroyed before, and all access was ended. So no memory that was sealed
// with that key can come after the event: what could write it is dead.
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
	return Decision{events.KindMemory, []events.Data{&events.OwnerErased{Leaves: s.Leaves}}}, nil
}
