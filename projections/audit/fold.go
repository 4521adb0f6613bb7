package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/canonical"
	"github.com/memory-ledger/ledger/events/leaf"
	"github.com/memory-ledger/ledger/projections/tree"
)

// recentLeaves is how many leaf hashes are kept beyond the frontier, so that
// the root at a size a little back can still be worked out: a batch is cut
// while its owner goes on writing.
const recentLeaves = 64

// fold is what the log says, as far as it was read.
type fold struct {
	*auditor
	owners    map[events.Owner]*owner
	sessions  map[string]*session
	keys      map[string]*apiKey
	grants    map[string]*grant
	batches   map[string]*batch
	attempts  map[string]*attempt
	movements map[string]*movement
	ids       uniques
	// back lists roots that lie too far back; see lookBack.
	back map[events.Owner][]claim
	rows rowsDigester
	row  memoryRow // the newest memory's
	// stored is when the log stored the messages at the rows of the checkpoint.
	stored map[uint64]time.Time
}

func newFold(a *auditor) *fold {
	return &fold{
		auditor: a, owners: map[events.Owner]*owner{}, sessions: map[string]*session{}, keys: map[string]*apiKey{},
		grants: map[string]*grant{}, batches: map[string]*batch{}, attempts: map[string]*attempt{},
		movements: map[string]*movement{}, back: map[events.Owner][]claim{}, stored: map[uint64]time.Time{},
		ids: uniques{digests: a.digests}, rows: rowsDigester{digests: a.digests},
	}
}

// owner is what is kept of an owner.
type owner struct {
	name                    events.Owner
	userID                  string
	registeredAt            time.Time
	versions, chainVersions int    // as counted; a hole is skipped once it was found
	messages                uint64 // of the ledger family
	named                   uint64 // sequence of the newest, where it brought no leaf
	chainVersion            int    // the highest, as the read model has it
	chainLastSeq            uint64

	base   *tree.Frontier
	recent []events.Hash
	rows   digest // of the memories, in leaf order
	active map[events.GrantKind]*grant

	committed []*batch // largest confirmed one; several only where somebody said so again
}

func (f *fold) owner(name events.Owner) *owner {
	o := f.owners[name]
	if o == nil {
		base, err := tree.NewFrontier(0, nil)
		if err != nil {
			panic(err) // the empty tree has no hashes to be wrong
		}
		o = &owner{name: name, base: base}
		f.owners[name] = o
	}
	return o
}

func (o *owner) skip(family events.Family, seq uint64) {
	if family == events.FamilyChain {
		o.chainVersions, o.chainLastSeq = o.chainVersions+1, seq
		return
	}
	o.versions, o.messages, o.named = o.versions+1, o.messages+1, seq
}

// leaves is the size of the owner's log.
func (o *owner) leaves() uint64 { return o.base.Size() + uint64(len(o.recent)) }

func (o *owner) append(h events.Hash) {
	if len(o.recent) == recentLeaves {
		for _, old := range o.recent[:recentLeaves/2] {
			o.base.Append(old)
		}
		o.recent = o.recent[:copy(o.recent, o.recent[recentLeaves/2:])]
	}
	o.recent = append(o.recent, h)
}

// root works out the root at a size, where that is not too far back.
func (o *owner) root(size uint64) (root events.Hash, known bool) {
	if size < o.base.Size() || size > o.leaves() {
		return events.Hash{}, false
	}
	frontier, err := tree.NewFrontier(o.base.Size(), o.base.Hashes())
	if err != nil {
		panic(err) // the hashes are those of that size
	}
	for _, h := range o.recent[:size-o.base.Size()] {
		frontier.Append(h)
	}
	return frontier.Root(), true
}

// current is the event that is being folded.
type current struct {
	owner    *owner
	seq      uint64
	position int
	event    *events.Event
	ordinals map[string]int // stake movements of this message that are alike; nil where there are none
	// withMemory says that the message holds a memory.
	withMemory bool
}

func (f *fold) wrong(c *current, check Check, format string, args ...any) {
	f.report.add(Finding{Check: check, Owner: c.owner.name, Seq: c.seq, Detail: fmt.Sprintf(format, args...)})
}

func (f *fold) event(ctx context.Context, c *current) error {
	switch data := c.event.Data.(type) {
	case *events.OwnerRegistered:
		if c.owner.userID != "" {
			f.wrong(c, CheckKey, "owner registered again")
			return nil
		}
		c.owner.userID, c.owner.registeredAt = data.UserID, c.event.Time.Time()
	case *events.MemoryWritten:
		return f.memory(ctx, c, data)
	case *events.SessionIssued, *events.SessionRevoked, *events.ApiKeyCreated, *events.ApiKeyUsed, *events.ApiKeyRevoked:
		f.credential(c)
	case *events.GrantMinted:
		f.minted(c, data)
	case *events.GrantConsumed:
		f.consumed(c, data)
	case *events.GrantRevoked:
		f.revoked(c, data)
	case *events.BatchCut, *events.BatchSubmitted, *events.BatchConfirmed, *events.BatchFailed:
		f.batch(c)
	case *events.StakeDeposited:
		f.moved(c, *data, "deposit")
	case *events.StakeWithdrawn:
		f.moved(c, events.StakeDeposited(*data), "withdrawal")
	}
	return nil
}

// memory checks a leaf and adds it to the owner's tree.
func (f *fold) memory(ctx context.Context, c *current, data *events.MemoryWritten) error {
	o := c.owner
	f.report.summary.Leaves++
	if want := o.leaves(); data.LeafIndex != want {
		f.report.add(Finding{Check: CheckLeaf, Owner: o.name, Seq: c.seq, LeafIndex: at(data.LeafIndex),
			Detail: fmt.Sprintf("leaf index %d where %d should be", data.LeafIndex, want)})
	}
	if err := f.ids.add(idMemory, c.seq, data.MemoryID); err != nil {
		return err
	}
	if data.IdempotencyKeyHash != nil {
		if err := f.ids.add(idIdempotency, c.seq, string(o.name), string(data.IdempotencyKeyHash[:])); err != nil {
			return err
		}
	}
	if err := f.recompute(ctx, c, data); err != nil {
		return err
	}
	o.append(data.LeafHash)
	f.row.of(c.event, data, c.seq)
	o.rows = f.rows.after(o.rows, &f.row)
	return nil
}

// recompute opens the content and computes the leaf hash again. Keys that are
// not to be had are counted by reason.
func (f *fold) recompute(ctx context.Context, c *current, data *events.MemoryWritten) error {
	if f.cfg.Keys == nil {
		f.report.unread[unread{why: orNone(f.cfg.WhyNoKeys, "no data keys")}]++
		return nil
	}
	key, err := f.cfg.Keys(ctx, c.owner.name)
	var unopened *Unopened
	switch {
	case errors.Is(err, ErrNoKey):
		f.report.unread[unread{why: "the owner's data key is gone"}]++
		return nil
	case errors.As(err, &unopened):
		f.report.unread[unread{unopened.Why, !unopened.Optional}]++
		return nil
	}
	if err != nil {
		return fmt.Errorf("data key of %s: %w", c.owner.name, err)
	}
	f.report.summary.LeavesRecomputed++
	if why := f.leafDiffers(key, c.owner.name, data); why != "" {
		f.report.add(Finding{Check: CheckLeaf, Owner: c.owner.name, Seq: c.seq, LeafIndex: at(data.LeafIndex), Detail: why})
	}
	return nil
}

func (f *fold) leafDiffers(key Key, owner events.Owner, data *events.MemoryWritten) string {
	if data.LeafVersion != leaf.Version {
		return fmt.Sprintf("leaf version %d is unknown", data.LeafVersion)
	}
	content, err := key.Open(data.MemoryID, data.Sealed)
	if err != nil {
		return "the sealed content does not open: it was altered, or belongs to another memory"
	}
	metadata, err := canonical.Canonicalize(data.Metadata)
	if err != nil || metadata.String() != string(data.Metadata) {
		return "the metadata is not in canonical form"
	}
	l, err := leaf.New(key.LeafSecret(), leaf.Memory{Content: content, Metadata: metadata, Owner: owner})
	if err != nil {
		return err.Error()
	}
	hash, err := l.Hash()
	if err != nil {
		return err.Error()
	}
	if hash != data.LeafHash {
		return fmt.Sprintf("leaf hash is %s, its content gives %s", data.LeafHash, hash)
	}
	return ""
}
