package audit

import (
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/events"
)

// batch is a batch as the log describes it, in the form that its row must have.
type batch struct {
	state                                string
	owner                                *owner
	size                                 uint64
	root                                 events.Hash
	signature, cluster, program, account *string
	slot                                 *uint64
	confirmed                            *time.Time
	seq                                  uint64
}

// claim is a root that an event or an account names for a size.
type claim struct {
	check Check
	what  string
	size  uint64
	root  events.Hash
	seq   uint64
}

// cut folds the event that begins a batch. The functions below fold its later events.
func (f *fold) cut(c *current, data *events.BatchCut) {
	if b := f.batchOf(c, data.BatchID, data.Size, data.Root, true); b != nil {
		b.state = "cut"
	}
	if data.FromSize >= data.Size {
		f.wrong(c, CheckBatch, "batch %s goes from size %d to %d", data.BatchID, data.FromSize, data.Size)
	}
}

func (f *fold) submitted(c *current, data *events.BatchSubmitted) {
	f.attempts[rowKey(data.BatchID, data.Signature)] = true
	if b := f.batchOf(c, data.BatchID, data.Size, data.Root, false); b != nil {
		b.state, b.signature = "submitted", &data.Signature
	}
}

func (f *fold) confirmed(c *current, data *events.BatchConfirmed) {
	if !f.attempts[rowKey(data.BatchID, data.Signature)] {
		f.wrong(c, CheckBatch, "batch %s is confirmed by transaction %s, which was never submitted for it", data.BatchID, data.Signature)
	}
	if b := f.batchOf(c, data.BatchID, data.Size, data.Root, false); b != nil {
		b.state, b.confirmed, b.signature, b.slot = "confirmed", c.now(), &data.Signature, &data.Slot
		b.cluster, b.program, b.account = &data.Cluster, &data.ProgramID, &data.Account
		c.owner.confirm(b)
	}
}

func (f *fold) failed(c *current, data *events.BatchFailed) {
	b := f.batches[data.BatchID]
	if b == nil || b.owner != c.owner {
		f.wrong(c, CheckBatch, "batch %s failed, which was never cut", data.BatchID)
	}
	if b != nil && b.state != "confirmed" {
		b.state = "failed"
	}
}

// confirm keeps the confirmed batches of the largest size. Receipts quote one of them.
func (o *owner) confirm(b *batch) {
	if len(o.committed) > 0 && o.committed[0].size != b.size {
		if b.size < o.committed[0].size {
			return
		}
		o.committed = nil
	}
	o.committed = append(o.committed, b)
}

// batchOf finds or creates the batch of an event, and checks the size and root that the
// event names. It returns nil for a confirmed batch, because no event changes one.
func (f *fold) batchOf(c *current, id string, size uint64, root events.Hash, cut bool) *batch {
	b := f.batches[id]
	switch {
	case b == nil && !cut:
		f.wrong(c, CheckBatch, "%s of batch %s, which was never cut", c.event.Type(), id)
	case b != nil && !cut && (b.size != size || b.root != root):
		f.wrong(c, CheckBatch, "%s of batch %s says size %d and root %s, it was cut at %d with %s", c.event.Type(), id, size, root, b.size, b.root)
	}
	if b == nil || cut || b.size != size || b.root != root {
		f.claim(c.owner, claim{check: CheckBatch, what: fmt.Sprintf("%s of batch %s", c.event.Type(), id), size: size, root: root, seq: c.seq})
	}
	if b == nil {
		b = &batch{owner: c.owner}
		f.batches[id] = b
	}
	if b.state == "confirmed" {
		return nil
	}
	b.size, b.root, b.seq = size, root, c.seq
	return b
}

// claim checks a root against the owner's leaves.
func (f *fold) claim(o *owner, cl claim) {
	if size := uint64(len(o.leaves)); cl.size > size {
		f.report.wrong(cl.check, o.name, cl.seq, "%s names size %d, the owner has %d leaves there", cl.what, cl.size, size)
		return
	}
	f.report.summary.BatchRoots++
	if root := o.root(cl.size); cl.root != root {
		f.report.wrong(cl.check, o.name, cl.seq, "%s: root of %d leaves is %s, the leaves give %s", cl.what, cl.size, cl.root, root)
	}
}
