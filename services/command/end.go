package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/memory-ledger/ledger/events"
)

// endGrants revokes the grants that were minted by what chosen selects, also those that
// have expired here and may be alive for a replica whose clock is behind.
func endGrants(s *State, now time.Time, chosen func(events.Via) bool) (revoked []events.Data) {
	for _, id := range slices.Sorted(maps.Keys(s.Grants)) {
		if g := s.Grants[id]; !g.over(now) && chosen(g.By) {
			revoked = append(revoked, &events.GrantRevoked{GrantID: id, Kind: g.Kind, Reason: events.RevokedByOwner})
		}
	}
	return revoked
}

// EndSession ends a session of either API, also one that has expired here and may be alive
// for a replica whose clock is behind, and the grants that it minted. It ends the grants of
// a session that has ended before, too: a sign-out leaves them alive.
type EndSession struct {
	SessionID  string
	Credential Credential
}

func (c *EndSession) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	d := Decision{Kind: events.KindSession}
	d.Events = endGrants(s, now, func(by events.Via) bool { return by == events.Via{Kind: events.ViaSession, ID: c.SessionID} })
	for _, sessions := range []map[string]time.Time{s.CoreSessions, s.Sessions} {
		if !over(sessions[c.SessionID], now) {
			d.Events = append(d.Events, &events.SessionRevoked{SessionID: c.SessionID})
		}
	}
	if len(d.Events) == 0 {
		return Decision{}, ErrSessionUnknown
	}
	return d, nil
}

// EndAccess ends all grants, all API keys, or the sessions of both APIs, also those that
// have expired here and may be alive for a replica whose clock is behind. With keys or
// sessions it ends the grants that they minted.
type EndAccess struct {
	Kind       events.SubjectKind // KindGrant, KindKey or KindSession
	Except     string             // a session to keep
	Credential Credential

	// Ended is the answer: how many ended that were alive here.
	Ended int
}

func (c *EndAccess) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	d := Decision{Kind: c.Kind}
	c.Ended = 0
	ended := func(live bool) {
		if live {
			c.Ended++
		}
	}
	switch c.Kind {
	case events.KindGrant:
		d.Events = endGrants(s, now, func(events.Via) bool { return true })
		for _, g := range s.Grants {
			ended(g.live(now))
		}
	case events.KindKey:
		d.Events = endGrants(s, now, func(by events.Via) bool { return by.Kind == events.ViaKey })
		for _, id := range slices.Sorted(maps.Keys(s.Keys)) {
			if k := s.Keys[id]; !k.over(now) {
				d.Events = append(d.Events, &events.ApiKeyRevoked{KeyID: id})
				ended(k.live(now))
			}
		}
	case events.KindSession:
		d.Events = endGrants(s, now, func(by events.Via) bool { return by.Kind == events.ViaSession && by.ID != c.Except })
		for _, sessions := range []map[string]time.Time{s.CoreSessions, s.Sessions} {
			for _, id := range slices.Sorted(maps.Keys(sessions)) {
				if !over(sessions[id], now) && id != c.Except {
					d.Events = append(d.Events, &events.SessionRevoked{SessionID: id})
					ended(now.Before(sessions[id]))
				}
			}
		}
	}
	return d, nil
}

// accessKinds are the kinds of access to an owner's log.
var accessKinds = []events.SubjectKind{events.KindGrant, events.KindKey, events.KindSession}

// EndAllAccess ends all sessions, API keys, and grants of an owner, with one message for
// each kind. A crash in between leaves some of them alive; run it again.
func (x *Executor) EndAllAccess(ctx context.Context, owner events.Owner) error {
	for _, kind := range accessKinds {
		if err := x.Execute(ctx, owner, &EndAccess{Kind: kind}); err != nil {
			return fmt.Errorf("end %ss of %s: %w", kind, owner, err)
		}
	}
	return nil
}

// NoReadModel is a Loader without a read model: the state is read from the log, from the
// owner's first message on. It is for tools without a database.
type NoReadModel struct{}

func (NoReadModel) Load(_ context.Context, owner events.Owner) (*State, error) {
	return NewState(owner), nil
}

func (NoReadModel) FindWritten(context.Context, events.Owner, events.Hash) (Written, bool, uint64, error) {
	return Written{}, false, 0, nil
}

func (NoReadModel) UsedKeys(context.Context, events.Owner, int) ([]events.Hash, uint64, error) {
	return nil, 0, nil
}

func (NoReadModel) WithHash(context.Context, events.Owner, []events.Hash) ([]Superseded, uint64, error) {
	return nil, 0, nil
}

// RetractMemory retracts a memory of the owner. If it was retracted before, nothing is
// appended.
type RetractMemory struct {
	MemoryID   string // of the leaf
	LeafIndex  uint64
	Credential Credential
}

func (c *RetractMemory) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	if s.Retracted.Has(c.LeafIndex) || c.LeafIndex < s.Erased.Leaves {
		return Decision{}, nil
	}
	retracted := &events.MemoryRetracted{MemoryID: c.MemoryID, LeafIndex: c.LeafIndex, Leaves: s.Leaves}
	return Decision{events.KindMemory, append([]events.Data{retracted}, c.Credential.use(s, now)...)}, nil
}

// ForgetMemory records that the text of a memory is made unreadable. The memory's key is
// destroyed after it. If the memory was forgotten or erased before, nothing is appended.
type ForgetMemory struct {
	MemoryID   string // of the leaf
	LeafIndex  uint64
	Credential Credential
}

func (c *ForgetMemory) decide(s *State, now time.Time) (Decision, error) {
	if err := c.Credential.check(s, now); err != nil {
		return Decision{}, err
	}
	if s.Forgotten.Has(c.LeafIndex) || c.LeafIndex < s.Erased.Leaves {
		return Decision{}, nil
	}
	return Decision{events.KindMemory, []events.Data{&events.MemoryForgotten{MemoryID: c.MemoryID, LeafIndex: c.LeafIndex, Leaves: s.Leaves}}}, nil
}

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
