package memory

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/command"
)

// sameWithin is how long a batch that is written again is the same batch.
const sameWithin = time.Hour

// WriteOnce stores memories as WriteBatch does. If the same credential writes the same
// memories again within an hour, it gets the first answer, unless one of them was retracted
// in the meantime. The drafts need no Idempotency-Key: one is derived from the credential,
// the leaves and the hour, so a retry after a crash or on another replica finds it, too.
func (s *Service) WriteOnce(ctx context.Context, r Reader, drafts []Draft, now time.Time) (*command.WriteBatch, error) {
	retracted := ""
	for {
		write, err := s.prepareBatch(ctx, drafts)
		if err != nil {
			return nil, err
		}
		key, err := s.onceKey(ctx, r.Owner, write, retracted, now)
		if err != nil {
			return nil, err
		}
		write.Memories[0].IdempotencyKey = &key
		if err := s.execute(ctx, r.Owner, write, len(drafts), &write.Replayed); err != nil || !write.Replayed {
			return write, err
		}
		if retracted, err = s.firstRetracted(ctx, r, write); err != nil || retracted == "" {
			return write, err
		}
	}
}

// onceKey returns the Idempotency-Key for a batch: that of the last hour if the batch was
// written in it and less than an hour ago, otherwise that of this hour.
//
// The key is made of leaf hashes, which are salted and in the log anyway. A hash of the
// texts alone would let readers of the log test guesses.
func (s *Service) onceKey(ctx context.Context, owner events.Owner, write *command.WriteBatch, retracted string, now time.Time) (events.Hash, error) {
	of := func(hour time.Time) events.Hash {
		h := sha256.New()
		fmt.Fprintf(h, "memory-ledger/once-key/v1\x00%d\x00%s\x00%s\x00%d\x00", write.Credential.Kind, write.Credential.ID, retracted, hour.Unix())
		for _, m := range write.Memories {
			_, _ = h.Write(m.LeafHash[:]) // never fails
		}
		return events.Hash(h.Sum(nil))
	}
	this := now.Truncate(sameWithin)
	last := of(this.Add(-sameWithin))
	first, found, err := memories.ByIdempotencyKey(ctx, s.Pool, owner, last)
	if err != nil {
		return events.Hash{}, err
	}
	if found && now.Sub(first.CreatedAt.Time()) < sameWithin {
		return last, nil
	}
	return of(this), nil
}

// firstRetracted returns the id of the first retracted memory of a batch, empty if there is
// none.
func (s *Service) firstRetracted(ctx context.Context, r Reader, write *command.WriteBatch) (string, error) {
	for _, m := range write.Memories {
		row, err := s.find(ctx, r, m.Written.MemoryID)
		if errors.Is(err, ErrNotFound) {
			continue // written since the reader's request arrived, so not retracted before it
		}
		if err != nil {
			return "", err
		}
		if row.Retracted {
			return row.ID, nil
		}
	}
	return "", nil
}
