package command

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/memory-ledger/ledger/events"
)

// EndAccess ends all grants, API keys or extension sessions of an owner.
type EndAccess struct {
	Kind events.SubjectKind // KindGrant, KindKey or KindSession
}

func (c *EndAccess) decide(s *State, now time.Time) (Decision, error) {
	d := Decision{Kind: c.Kind}
	switch c.Kind {
	case events.KindGrant:
		for _, id := range slices.Sorted(maps.Keys(s.Grants)) {
			if g := s.Grants[id]; g.live(now) {
				d.Events = append(d.Events, &events.GrantRevoked{GrantID: id, Kind: g.Kind, Reason: events.RevokedByOwner})
			}
		}
	case events.KindKey:
		for _, id := range slices.Sorted(maps.Keys(s.Keys)) {
			d.Events = append(d.Events, &events.ApiKeyRevoked{KeyID: id})
		}
	case events.KindSession:
		for _, id := range slices.Sorted(maps.Keys(s.Sessions)) {
			if now.Before(s.Sessions[id]) {
				d.Events = append(d.Events, &events.SessionRevoked{SessionID: id})
			}
		}
	}
	return d, nil
}

// NoReadModel is a Loader that knows of nothing: what it loads is read from the log,
// from the owner's first message on. It is for tools that have no database; commands
// with an Idempotency-Key need another.
type NoReadModel struct{}

// Load implements Loader.
func (NoReadModel) Load(_ context.Context, owner events.Owner) (*State, error) {
	return NewState(owner), nil
}

// FindWritten implements Loader.
func (NoReadModel) FindWritten(context.Context, events.Owner, events.Hash) (Written, bool, uint64, error) {
	return Written{}, false, 0, nil
}

// UsedKeys implements Loader.
func (NoReadModel) UsedKeys(context.Context, events.Owner, int) ([]events.Hash, error) {
	return nil, nil
}

// Leaves implements Loader.
func (NoReadModel) Leaves(context.Context, events.Owner) (uint64, error) { return 0, nil }
