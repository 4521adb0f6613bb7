package command

import (
	"maps"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/leaf"
	"github.com/memory-ledger/ledger/projections/readmodel/imports"
	"github.com/memory-ledger/ledger/projections/readmodel/retractions"
	"github.com/memory-ledger/ledger/services/quota"
)

// Grant is the part of an agent case or memory drop that decisions need. It is neither
// revoked nor spent.
type Grant struct {
	Kind      events.GrantKind
	ExpiresAt events.Timestamp
	MaxUses   int
	Used      int
	By        events.Via // what minted it; zero if its event does not say
}

func (g Grant) live(now time.Time) bool {
	return g.Used < g.MaxUses && now.Before(g.ExpiresAt.Time())
}

// clockSpread is how far the clocks of two replicas may differ: twice what a replica's clock
// may be off. An end that has passed here may be that far ahead for another replica.
const clockSpread = time.Minute

// over reports whether an end has passed on the clocks of all replicas.
func over(end, now time.Time) bool { return !now.Add(-clockSpread).Before(end) }

// gone reports whether a state may drop a session or grant that ended then: not yet what is
// alive by a right clock, if this one is hours ahead. Else the owner could neither use nor end
// it. Keys are dropped once they are over: they may last a second, so a day of them is many.
func gone(end, now time.Time) bool { return !now.Add(-day).Before(end) }

// over reports whether a grant can't be used on any replica.
func (g Grant) over(now time.Time) bool { return g.Used >= g.MaxUses || over(g.ExpiresAt.Time(), now) }

func (k Key) over(now time.Time) bool { return !k.Expires.IsZero() && over(k.Expires, now) }

// Key is the part of an API key that decisions need. It is not revoked.
type Key struct {
	LastUsed time.Time // zero if never recorded
	Expires  time.Time // zero if never
}

func (k Key) live(now time.Time) bool { return k.Expires.IsZero() || now.Before(k.Expires) }

// Written is the answer to a write. Every repetition with the same Idempotency-Key gets the
// answer of the first attempt.
type Written struct {
	MemoryID  string
	LeafIndex uint64
	LeafHash  events.Hash
	CreatedAt events.Timestamp
	Seq       uint64 // of the message; 0 in an answer
}

// State is one owner's state, folded from the owner's events of the ledger family. It holds
// only what decisions need.
type State struct {
	Owner     events.Owner
	Seq       uint64 // sequence of the newest event folded in; the expectation of the next append
	Version   int    // owner version of that event
	UserID    string // empty if the owner never signed in
	Leaves    uint64
	Retracted leaf.Set // also those that were forgotten; an owner may retract as many as there are
	Forgotten leaf.Set
	Erased    retractions.Erased
	Importing *imports.Import  // nil: none is running
	Grants    map[string]Grant // by id: neither revoked nor spent
	Keys      map[string]Key   // by id: not revoked; some may have expired
	// Day is the newest UTC day, counted from 1970, on which the owner wrote a memory, and
	// DayBytes how many bytes on that day; see bytesOf.
	Day, DayBytes int64
	Sessions      map[string]time.Time // extension sessions by id: not revoked; their expiry
	CoreSessions  map[string]time.Time // the same of the core API
}

func NewState(owner events.Owner) *State {
	return &State{
		Owner: owner, Grants: map[string]Grant{}, Keys: map[string]Key{},
		Sessions: map[string]time.Time{}, CoreSessions: map[string]time.Time{},
	}
}

func (s *State) sessionsOf(api events.Audience) map[string]time.Time {
	if api == events.AudienceCore {
		return s.CoreSessions
	}
	return s.Sessions
}

// Apply folds a message of the owner into the state.
func (s *State) Apply(seq uint64, batch []events.Event) {
	for i := range batch {
		s.apply(&batch[i])
	}
	s.Seq, s.Version = seq, batch[0].OwnerVersion
}

func (s *State) apply(e *events.Event) {
	switch data := e.Data.(type) {
	case *events.OwnerRegistered:
		s.UserID = data.UserID
	case *events.SessionIssued:
		// Drop expired sessions, or an owner who signs in every day grows without bound.
		sessions := s.sessionsOf(data.Audience)
		maps.DeleteFunc(sessions, func(_ string, expires time.Time) bool { return gone(expires, e.Time.Time()) })
		sessions[data.SessionID] = data.ExpiresAt.Time()
	case *events.SessionRevoked:
		delete(s.Sessions, data.SessionID)
		delete(s.CoreSessions, data.SessionID)
	case *events.MemoryWritten:
		s.Leaves = data.LeafIndex + 1
		s.count(e.Time.Time(), bytesOf(len(data.Sealed), len(data.Metadata)))
	case *events.MemoryRetracted:
		if data.LeafIndex < s.Leaves { // another writer's message may name any leaf
			s.Retracted.Add(data.LeafIndex)
		}
	case *events.MemoryForgotten:
		if data.LeafIndex < s.Leaves {
			s.Retracted.Add(data.LeafIndex)
			s.Forgotten.Add(data.LeafIndex)
		}
	case *events.OwnerErased:
		s.Erased = retractions.Erased{Times: s.Erased.Times + 1, Leaves: data.Leaves}
	case *events.ImportStarted:
		s.Importing = &imports.Import{Root: data.Root, Size: data.Size}
	case *events.ImportFinished:
		s.Importing = nil
	case *events.GrantMinted:
		maps.DeleteFunc(s.Grants, func(_ string, g Grant) bool { return gone(g.ExpiresAt.Time(), e.Time.Time()) })
		s.Grants[data.GrantID] = Grant{Kind: data.Kind, ExpiresAt: data.ExpiresAt, MaxUses: data.MaxUses, By: viaOf(data.By)}
	case *events.GrantConsumed:
		s.spend(data)
	case *events.GrantRevoked:
		delete(s.Grants, data.GrantID)
	case *events.ApiKeyCreated:
		maps.DeleteFunc(s.Keys, func(_ string, k Key) bool { return k.over(e.Time.Time()) })
		s.Keys[data.KeyID] = Key{Expires: data.ExpiresAt.TimeOrZero()}
	case *events.ApiKeyUsed:
		if key, ok := s.Keys[data.KeyID]; ok { // otherwise it has expired and was dropped
			key.LastUsed = e.Time.Time()
			s.Keys[data.KeyID] = key
		}
	case *events.ApiKeyRevoked:
		delete(s.Keys, data.KeyID)
	}
}

func viaOf(v *events.Via) events.Via {
	if v == nil {
		return events.Via{}
	}
	return *v
}

func (s *State) spend(c *events.GrantConsumed) {
	grant, ok := s.Grants[c.GrantID]
	if !ok {
		return
	}
	grant.Used = c.Use
	if c.Remaining == 0 {
		delete(s.Grants, c.GrantID)
		return
	}
	s.Grants[c.GrantID] = grant
}

const day = 24 * time.Hour

func dayOf(t time.Time) int64 { return t.Unix() / int64(day/time.Second) }

// bytesOf returns what a memory counts for: its sealed content and its metadata, of which
// the empty object is free. Metadata is not sealed, but fills the log as well.
func bytesOf(sealed, metadata int) int64 {
	return int64(sealed + max(0, metadata-len("{}")))
}

// count adds a memory. A memory that a replica with a slow clock wrote after midnight counts
// for no day.
func (s *State) count(at time.Time, bytes int64) {
	switch d := dayOf(at); {
	case d > s.Day, s.ahead(at):
		s.Day, s.DayBytes = d, bytes
	case d == s.Day:
		s.DayBytes += bytes
	}
}

// ahead reports whether no right clock has reached the newest day: a wrong one wrote then.
func (s *State) ahead(now time.Time) bool { return s.Day > dayOf(now.Add(clockSpread)) }

// admit refuses memories during an import, and those that would exceed the owner's bytes of a
// UTC day.
func (s *State) admit(now time.Time, memories ...*WriteMemory) error {
	if s.Importing != nil {
		return ErrImporting
	}
	var bytes int64
	for _, m := range memories {
		bytes += bytesOf(m.SealedBytes, m.Metadata.Len())
	}
	return s.admitBytes(now, bytes, memories[0].BytesPerDay)
}

// admitBytes refuses bytes that would exceed an owner's limit of a UTC day; 0 is none. The
// bytes so far are folded from the owner's events, so all replicas agree.
func (s *State) admitBytes(now time.Time, bytes, limit int64) error {
	if dayOf(now) <= s.Day && !s.ahead(now) { // also if another replica's clock has passed midnight
		bytes += s.DayBytes
	}
	if limit == 0 || bytes <= limit {
		return nil
	}
	midnight := now.UTC().Truncate(day).Add(day)
	return &quota.ExceededError{Of: "bytes of memories a day (UTC)", Limit: limit, Wait: midnight.Sub(now)}
}
