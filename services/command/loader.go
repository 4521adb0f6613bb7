package command

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/apikeys"
	"github.com/memory-ledger/ledger/projections/readmodel/grants"
	"github.com/memory-ledger/ledger/projections/readmodel/imports"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
	"github.com/memory-ledger/ledger/projections/readmodel/retractions"
	"github.com/memory-ledger/ledger/projections/readmodel/sessions"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Loader loads the state of owners that are not in memory from the read model.
type Loader interface {
	// Load returns the owner's state at some position of the projection. It may be
	// arbitrarily old; later events are read from the log.
	Load(ctx context.Context, owner events.Owner) (*State, error)
	// FindWritten looks up the answer to an earlier write by its Idempotency-Key, among the
	// owner's messages up to the sequence seq.
	FindWritten(ctx context.Context, owner events.Owner, key events.Hash) (w Written, found bool, seq uint64, err error)
	// UsedKeys returns the Idempotency-Keys of the owner's messages up to the sequence seq, in
	// any order. If there are more than limit, it returns any limit+1 of them.
	UsedKeys(ctx context.Context, owner events.Owner, limit int) (keys []events.Hash, seq uint64, err error)
	// WithHash returns the owner's leaves with one of the hashes, as far as the read model
	// has them: up to the sequence seq.
	WithHash(ctx context.Context, owner events.Owner, hashes []events.Hash) (leaves []Superseded, seq uint64, err error)
}

type ReadModel struct {
	Pool *pgxpool.Pool
	Now  func() time.Time
	// CountBytes loads how much an owner wrote today, for a limit of bytes a day.
	CountBytes bool
}

// Load implements Loader. All parts are read in one database snapshot, at one position of
// the projection.
func (r ReadModel) Load(ctx context.Context, owner events.Owner) (*State, error) {
	state := NewState(owner)
	err := schema.Snapshot(ctx, r.Pool, func(tx pgx.Tx) error {
		*state = *NewState(owner) // a retry must not keep what the first attempt read
		o, found, err := owners.Find(ctx, tx, owner)
		if err != nil || !found {
			return err
		}
		state.Seq, state.Version, state.Leaves = o.LastSeq, int(o.Version), o.LeafCount
		state.UserID = o.UserID
		if err := r.loadDay(ctx, tx, state); err != nil {
			return err
		}
		return r.loadCredentials(ctx, tx, state)
	})
	if err != nil {
		return nil, fmt.Errorf("load %s from the read model: %w", owner, err)
	}
	return state, nil
}

func (r ReadModel) loadDay(ctx context.Context, tx pgx.Tx, state *State) error {
	if !r.CountBytes || state.Leaves == 0 {
		return nil
	}
	now := r.Now().UTC()
	today, end := now.Truncate(day), now.Add(clockSpread).Truncate(day).Add(day)
	bytes, err := memories.BytesBetween(ctx, tx, state.Owner, today, end, clockSpread)
	if bytes > 0 {
		state.Day, state.DayBytes = dayOf(today), bytes
	}
	return err
}

func (r ReadModel) loadCredentials(ctx context.Context, tx pgx.Tx, state *State) error {
	now := r.Now()
	ended := now.Add(-day) // see gone
	var err error
	if state.Retracted, state.Forgotten, err = retractions.Leaves(ctx, tx, state.Owner, state.Leaves); err != nil {
		return err
	}
	if state.Erased, err = retractions.FindErased(ctx, tx, state.Owner); err != nil {
		return err
	}
	if running, found, err := imports.Running(ctx, tx, state.Owner); err != nil {
		return err
	} else if found {
		state.Importing = &running
	}
	live, err := grants.Active(ctx, tx, state.Owner, ended)
	if err != nil {
		return err
	}
	for _, g := range live {
		state.Grants[g.ID] = Grant{Kind: g.Kind, ExpiresAt: g.ExpiresAt, MaxUses: g.MaxUses, Used: g.Used, By: viaOf(g.By)}
	}
	keys, err := apikeys.Active(ctx, tx, state.Owner, now.Add(-clockSpread))
	if err != nil {
		return err
	}
	for _, k := range keys {
		state.Keys[k.ID] = Key{LastUsed: k.LastUsedAt.TimeOrZero(), Expires: k.ExpiresAt.TimeOrZero()}
	}
	open, err := sessions.Active(ctx, tx, state.Owner, ended)
	if err != nil {
		return err
	}
	for _, s := range open {
		state.sessionsOf(s.Audience)[s.ID] = s.ExpiresAt.Time()
	}
	return nil
}

func (r ReadModel) FindWritten(ctx context.Context, owner events.Owner, key events.Hash) (w Written, found bool, seq uint64, err error) {
	err = schema.Snapshot(ctx, r.Pool, func(tx pgx.Tx) error {
		o, _, err := owners.Find(ctx, tx, owner)
		if err != nil {
			return err
		}
		var m memories.Memory
		m, found, err = memories.ByIdempotencyKey(ctx, tx, owner, key)
		w = Written{MemoryID: m.ID, LeafIndex: m.LeafIndex, LeafHash: m.LeafHash, CreatedAt: m.CreatedAt, Seq: m.Seq}
		seq = o.LastSeq
		return err
	})
	return w, found, seq, err
}

func (r ReadModel) WithHash(ctx context.Context, owner events.Owner, hashes []events.Hash) (leaves []Superseded, seq uint64, err error) {
	err = schema.Snapshot(ctx, r.Pool, func(tx pgx.Tx) error {
		o, _, err := owners.Find(ctx, tx, owner)
		if err == nil {
			leaves, err = memories.WithHash(ctx, tx, owner, hashes)
		}
		seq = o.LastSeq
		return err
	})
	return leaves, seq, err
}

func (r ReadModel) UsedKeys(ctx context.Context, owner events.Owner, limit int) (keys []events.Hash, seq uint64, err error) {
	err = schema.Snapshot(ctx, r.Pool, func(tx pgx.Tx) error {
		o, _, err := owners.Find(ctx, tx, owner)
		if err == nil {
			keys, err = memories.IdempotencyKeys(ctx, tx, owner, limit+1)
		}
		seq = o.LastSeq
		return err
	})
	return keys, seq, err
}
