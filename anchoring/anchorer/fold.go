package anchorer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/projections/projector"
)

// dayLayout formats the key of spending: the UTC day.
const dayLayout = time.DateOnly

// relevant selects the leaves and the events of the chain family.
func relevant(s events.Subject) bool {
	return s.Family == events.FamilyChain || s.Kind == events.KindMemory
}

// fold is the projection of the log into the anchorer's owners.
type fold struct{ anchorer *Anchorer }

func (*fold) Name() string { return "anchorer" }

func (*fold) Tables() []string { return []string{"owners", "clusters", "spending"} }

func (f *fold) Apply(ctx context.Context, w *projector.Writer, s projector.Slice) error {
	if err := f.anchorer.cfg.around(false); err != nil {
		return err
	}
	changed, err := f.touched(ctx, s.Records)
	if err != nil {
		return err
	}
	spent := map[string]uint64{}
	genesis := "" // of the newest confirmed batch
	for i := range s.Records {
		r := &s.Records[i]
		if err := f.record(changed[r.Owner], r, spent, &genesis); err != nil {
			return &contradiction{r.Seq, err}
		}
	}
	f.anchorer.store.write(w, changed, spent, genesis)
	return nil
}

func (f *fold) touched(ctx context.Context, records []projector.Record) (map[events.Owner]*owner, error) {
	owners := make(map[events.Owner]*owner)
	for i := range records {
		owners[records[i].Owner] = nil
	}
	known, err := f.anchorer.store.load(ctx, slices.Collect(maps.Keys(owners)))
	if err != nil {
		return nil, err
	}
	for _, o := range known {
		owners[o.key] = o
	}
	for key, o := range owners {
		if o == nil {
			owners[key] = newOwner(key)
		}
	}
	return owners, nil
}

func (f *fold) record(o *owner, r *projector.Record, spent map[string]uint64, genesis *string) error {
	if r.Family == events.FamilyChain {
		if err := o.message(r.Seq, r.Events[0].OwnerVersion); err != nil {
			return err
		}
	}
	for i := range r.Events {
		e := &r.Events[i]
		at := e.Time.Time()
		switch data := e.Data.(type) {
		case *events.MemoryWritten:
			if err := o.leaf(data, at); err != nil {
				return err
			}
			continue
		case *events.BatchSubmitted:
			// Before the rent was read from the chain, two years of 3480 lamports for each byte
			// count, as on every cluster.
			const mostRent = (128 + accountLen) * 2 * 3480
			// Of an earlier authority's transactions, or those for an earlier program, an owner's
			// first one created the account.
			first := o.ConfirmedSize == 0 || !o.Created && f.anchorer.signer.signed(data.Transaction)
			spent[at.Format(dayLayout)] += shareOf(data.Transaction, first, cmp.Or(f.anchorer.rent.Load(), mostRent))
		case *events.BatchConfirmed:
			*genesis = data.Cluster
			if !o.Created {
				o.Created = data.Account == f.anchorer.signer.address(o).String()
			}
		}
		if err := o.fold(e.Data, at); err != nil {
			return err
		}
	}
	return nil
}

// errLog says that the log contradicts itself, because of a bug or tampering, or the rows
// that it is folded into: one was lost, or is from an earlier time.
var errLog = errors.New("the log contradicts itself, or the anchorer's tables")

// contradiction is an errLog about the message at a sequence.
type contradiction struct {
	seq uint64
	why error
}

func (c *contradiction) Error() string { return fmt.Sprintf("sequence %d: %v", c.seq, c.why) }
func (c *contradiction) Unwrap() error { return c.why }

// owner is the anchoring state of one owner's log. It is a fold of the owner's leaves and
// chain events, and of nothing else. Its row keeps the exported fields as JSON.
type owner struct {
	key      events.Owner
	frontier verify.Tree

	ChainSeq     uint64 // of the newest message in the chain family
	ChainVersion int

	ConfirmedSize uint64
	// Created says that the account of these commits exists. Another authority or another
	// program has another account, which its first commit creates.
	Created bool `json:",omitempty"`

	// Waiting is when the oldest leaf was written that no open or confirmed batch covers;
	// zero if there is no such leaf.
	Waiting time.Time
	Batch   *batch `json:",omitempty"` // the open one; nil: none
}

// batch is an open batch: cut, and neither confirmed nor failed.
type batch struct {
	ID     string
	Size   uint64
	Root   events.Hash
	Oldest time.Time // when its oldest leaf was written
	Tried  *attempt  `json:",omitempty"` // nil until it is submitted
}

// attempt is the signed transaction that commits a batch, with others.
type attempt struct {
	Signature   string
	Blockhash   string
	LastValid   uint64
	Transaction []byte
}

func newOwner(key events.Owner) *owner { return &owner{key: key, frontier: verify.NewTree()} }

func (o *owner) size() uint64 { return o.frontier.Size() }

// oldest is when the oldest unanchored leaf was written; zero if all leaves are anchored.
func (o *owner) oldest() time.Time {
	if o.Batch != nil {
		return o.Batch.Oldest
	}
	return o.Waiting
}

func (o *owner) leaf(e *events.MemoryWritten, at time.Time) error {
	if e.LeafIndex != o.size() {
		return fmt.Errorf("%w: leaf %d of %s follows %d leaves", errLog, e.LeafIndex, o.key, o.size())
	}
	o.frontier.Append(e.LeafHash)
	if o.Waiting.IsZero() {
		o.Waiting = at
	}
	return nil
}

// message records the sequence and version of a message of the chain family.
func (o *owner) message(seq uint64, version int) error {
	if version != o.ChainVersion+1 {
		return fmt.Errorf("%w: chain version %d of %s follows %d", errLog, version, o.key, o.ChainVersion)
	}
	o.ChainSeq, o.ChainVersion = seq, version
	return nil
}

// fold applies an event of the chain family; at is the event's. An event
// about a batch that is not open does not change the open batch: two anchorers may both
// record the end of the same batch.
func (o *owner) fold(data events.Data, at time.Time) error {
	switch e := data.(type) {
	case *events.BatchCut:
		return o.cut(e, at)
	case *events.BatchSubmitted:
		if o.Batch != nil && o.Batch.ID == e.BatchID {
			o.Batch.Tried = &attempt{e.Signature, e.Blockhash, e.LastValidBlockHeight, e.Transaction}
		}
	case *events.BatchConfirmed:
		o.ConfirmedSize = max(o.ConfirmedSize, e.Size)
		if o.Batch != nil && o.Batch.ID == e.BatchID {
			o.Batch = nil
		}
	case *events.BatchFailed:
		if o.Batch != nil && o.Batch.ID == e.BatchID {
			if o.size() > o.ConfirmedSize {
				o.Waiting = o.Batch.Oldest
			}
			o.Batch = nil
		}
	}
	return nil
}

func (o *owner) cut(e *events.BatchCut, at time.Time) error {
	if o.Batch != nil || e.Size > o.size() {
		return fmt.Errorf("%w: batch %s of %s is cut at %d of %d leaves", errLog, e.BatchID, o.key, e.Size, o.size())
	}
	o.Batch = &batch{ID: e.BatchID, Size: e.Size, Root: e.Root, Oldest: o.Waiting}
	if o.Batch.Oldest.IsZero() {
		o.Batch.Oldest = at
	}
	o.Waiting = time.Time{}
	if o.size() > e.Size {
		// These leaves were written while the batch was being cut. The time of the cut is
		// used as theirs.
		o.Waiting = at
	}
	return nil
}
