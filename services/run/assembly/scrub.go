package assembly

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/keystore"
)

// scrubbed is how many messages of the log, and how many owners' keys, one readiness check
// reads.
const scrubbed = 100

// scrub finds what was lost before a reader needs it: each readiness check reads the next
// part of the log, and looks for the data keys of the next owners. It begins again at the
// end. Where something is lost it stays, so that every further check says so.
type scrub struct {
	log  *eventlog.JetStream
	keys *keystore.Store
	pool schema.Querier

	reading, looking sync.Mutex
	next             uint64       // sequence
	after            events.Owner // the last owner whose key is there
}

// checkLog reads a part of the log. The log itself remembers a message that can't be read.
func (s *scrub) checkLog(ctx context.Context) error {
	if err := s.log.Damaged(ctx); err != nil || !s.reading.TryLock() {
		return err
	}
	defer s.reading.Unlock()
	head, err := s.log.Head(ctx)
	if err != nil || head == 0 {
		return err
	}
	if s.next > head { // at its end, or restored
		s.next = 1
	}
	part := eventlog.ReadConfig{From: s.next, To: min(max(1, s.next)+scrubbed-1, head), MaxBytes: 1 << 20}
	return s.log.Read(ctx, part, func(slice eventlog.Slice) error {
		s.next = slice.Last + 1
		return nil
	})
}

// errKeyLost does not name the owner: readiness is public.
var errKeyLost = errors.New("the data key of an owner is lost or damaged, so their texts can't be read: restore the keystore from a backup")

// checkKeys looks for the data keys of some owners.
func (s *scrub) checkKeys(ctx context.Context) error {
	if !s.looking.TryLock() {
		return nil
	}
	defer s.looking.Unlock()
	all, err := owners.After(ctx, s.pool, s.after, scrubbed)
	if err != nil {
		return err
	}
	for _, owner := range all {
		if err := s.checkKey(ctx, owner); err != nil {
			return err
		}
		s.after = owner
	}
	if len(all) < scrubbed {
		s.after = ""
	}
	return nil
}

func (s *scrub) checkKey(ctx context.Context, owner events.Owner) error {
	err := s.keys.Check(ctx, owner)
	switch {
	case errors.Is(err, keystore.ErrForgotten): // the owner erased everything
		return nil
	case errors.Is(err, keystore.ErrMasterKey): // no backup helps
		return keystore.ErrMasterKey
	case errors.Is(err, keystore.ErrSealed):
		return errKeyLost
	case !errors.Is(err, keystore.ErrNoKey):
		return err
	}
	// An owner of whom only the chain tells has no key.
	known, _, err := owners.Find(ctx, s.pool, owner)
	if err != nil {
		return fmt.Errorf("find owner: %w", err)
	}
	if known.UserID == "" {
		return nil
	}
	return errKeyLost
}
