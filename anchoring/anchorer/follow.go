package anchorer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/partition"
)

// maxUnsaved is how many messages that mean nothing to anchoring may go by
// before the checkpoint is moved past them.
const maxUnsaved = 10_000

// dayLayout is how spending is keyed: by UTC day.
const dayLayout = time.DateOnly

// follower folds the log into the store. It reads the whole log, although it
// decodes only the leaf stream and the chain's events of its partitions: only who
// reads all of it knows when everything was seen, and notices a gap.
//
// A bounded number of owners stays in memory; the others are read back from
// the store when something happens to them.
type follower struct {
	store *store
	log   reader
	hot   *lru.Cache[events.Owner, *owner]
	rent  *atomic.Uint64 // lamports of a commitment account, as far as known

	position atomic.Uint64        // newest sequence that is folded
	unproven map[uint64]time.Time // see prove
	wake     chan<- struct{}
}

type reader interface {
	eventlog.Follower
	eventlog.Reader
}

// newFollower returns one that begins with the message at the lowest checkpoint,
// as proof that this is the log that the state came from.
func newFollower(s *store, log reader, cached int, rent *atomic.Uint64, wake chan<- struct{}) (*follower, error) {
	hot, err := lru.New[events.Owner, *owner](cached)
	if err != nil {
		return nil, err
	}
	f := &follower{store: s, log: log, hot: hot, rent: rent, wake: wake, unproven: s.marks.proofs()}
	f.position.Store(saturating(s.marks.lowest(), 1))
	return f, nil
}

// run folds until ctx ends or something fails. What is in memory is then of
// no use any more: the next session starts from the store.
func (f *follower) run(ctx context.Context) error {
	err := f.log.Follow(ctx, eventlog.FollowConfig{From: f.position.Load() + 1}, func(s eventlog.Slice) error {
		return f.slice(ctx, s)
	})
	if len(f.unproven) > 0 && (errors.Is(err, eventlog.ErrTruncated) || errors.Is(err, eventlog.ErrGap)) {
		return fmt.Errorf("%w: %w", errOtherLog, err) // it has no message at a checkpoint
	}
	return err
}

// prove checks that the log's messages at the checkpoints are those that were
// folded. A log that was restored from a backup and has grown since is found
// out here though it is as long as it was.
func (f *follower) prove(ctx context.Context, s eventlog.Slice) error {
	for seq, was := range f.unproven {
		if seq < s.First || seq > s.Last {
			continue
		}
		is, err := f.storedAt(ctx, s, seq)
		if err != nil {
			return err
		}
		// PostgreSQL keeps microseconds.
		if is.Sub(was).Abs() > time.Microsecond {
			return fmt.Errorf("%w: the checkpoint is a message that the log stored at %s, the log's message at sequence %d is of %s",
				errOtherLog, was.UTC().Format(time.RFC3339Nano), seq, is.UTC().Format(time.RFC3339Nano))
		}
		delete(f.unproven, seq)
	}
	return nil
}

// storedAt returns when the log stored a message of a slice.
func (f *follower) storedAt(ctx context.Context, s eventlog.Slice, seq uint64) (time.Time, error) {
	i, found := slices.BinarySearchFunc(s.Records, seq, func(r eventlog.Record, seq uint64) int { return cmp.Compare(r.Seq, seq) })
	if !found {
		return time.Time{}, fmt.Errorf("sequence %d: %w", seq, eventlog.ErrGap)
	}
	return eventlog.StoredAt(ctx, f.log, s.Records[i])
}

// relevant is a message of the log that anchoring folds.
type relevant struct {
	seq    uint64
	family events.Family
	events []events.Event
}

// slice folds a slice and saves what it changed. A crash before the save
// leaves the checkpoint where it was, and the slice is folded again.
func (f *follower) slice(ctx context.Context, s eventlog.Slice) error {
	if err := f.prove(ctx, s); err != nil {
		return err
	}
	messages, err := decode(s, f.store.marks)
	if err != nil {
		return err
	}
	changed, err := f.touched(ctx, messages)
	if err != nil {
		return err
	}
	out := folded{to: s.Last, spent: map[string]uint64{}}
	for _, m := range messages {
		if err := f.apply(changed[m.events[0].Owner], m, &out); err != nil {
			return fmt.Errorf("sequence %d: %w", m.seq, err)
		}
	}
	if len(changed) > 0 || saturating(s.Last, f.store.marks.lowest()) >= maxUnsaved {
		if out.stored, err = f.storedAt(ctx, s, s.Last); err != nil {
			return err
		}
		for _, o := range changed {
			out.owners = append(out.owners, o)
		}
		if err := f.store.save(ctx, out); err != nil {
			return err
		}
	}
	f.position.Store(s.Last)
	select {
	case f.wake <- struct{}{}:
	default: // it is awake already
	}
	return nil
}

// decode reads what is wanted of a slice. A foreign partition is told by the
// subject's text, unchecked: whose it is checks it.
func decode(s eventlog.Slice, wanted marks) ([]relevant, error) {
	var messages []relevant
	for _, r := range s.Records {
		if p, ok := partition.In(r.Subject); ok && !wanted.wants(p, r.Seq) {
			continue
		}
		subject, err := events.ParseSubject(r.Subject)
		if err != nil {
			return nil, fmt.Errorf("sequence %d: %w", r.Seq, err)
		}
		if subject.Family == events.FamilyLedger && subject.Kind != events.KindMemory {
			continue
		}
		batch, err := events.DecodeBatch(r.Payload)
		if err != nil {
			return nil, fmt.Errorf("sequence %d: %w", r.Seq, err)
		}
		if batch[0].Owner != subject.Owner {
			return nil, fmt.Errorf("sequence %d: %w: event of %s on the subject of %s", r.Seq, errLog, batch[0].Owner, subject.Owner)
		}
		messages = append(messages, relevant{r.Seq, subject.Family, batch})
	}
	return messages, nil
}

// touched returns the owners of the messages, from memory or from the store.
func (f *follower) touched(ctx context.Context, messages []relevant) (map[events.Owner]*owner, error) {
	owners := make(map[events.Owner]*owner)
	var cold []events.Owner
	for _, m := range messages {
		key := m.events[0].Owner
		if _, seen := owners[key]; seen {
			continue
		}
		if o, ok := f.hot.Get(key); ok {
			owners[key] = o
			continue
		}
		owners[key] = nil
		cold = append(cold, key)
	}
	if len(cold) == 0 {
		return owners, nil
	}
	loaded, err := f.store.load(ctx, cold)
	if err != nil {
		return nil, err
	}
	for _, o := range loaded {
		owners[o.key] = o
	}
	for _, key := range cold {
		if owners[key] == nil {
			owners[key] = newOwner(key)
		}
		f.hot.Add(key, owners[key])
	}
	return owners, nil
}

func (f *follower) apply(o *owner, m relevant, out *folded) error {
	if m.family == events.FamilyChain {
		if err := o.message(m.seq, m.events[0].OwnerVersion); err != nil {
			return err
		}
	}
	for i := range m.events {
		e := &m.events[i]
		at := e.Time.Time()
		if data, ok := e.Data.(*events.MemoryWritten); ok {
			if err := o.leaf(data, at); err != nil {
				return err
			}
			o.came(data.LeafIndex, e.TraceParent)
			continue
		}
		switch data := e.Data.(type) {
		case *events.BatchSubmitted:
			out.spent[at.Format(dayLayout)] += shareOf(data.Transaction, o.confirmedSize == 0, f.rent.Load())
		case *events.BatchConfirmed:
			out.cluster = data.Cluster
		}
		if err := o.fold(e.Data, at, e.TraceParent); err != nil {
			return err
		}
	}
	return nil
}
