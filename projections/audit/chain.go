package audit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/memory-ledger/ledger/events"
)

// checkChain compares the commitment accounts with the log. The accounts are read after
// the log, so an account can be ahead of the replayed part. But leaves are in the log
// before they are committed, so a second read of the log must reach the account's size.
func (a *auditor) checkChain(ctx context.Context) error {
	if a.cfg.Chain == nil {
		a.report.notChecked("the chain: %s", cmp.Or(a.cfg.WhyNoChain, "none is configured"))
		return nil
	}
	if a.cfg.Owner != "" {
		a.fold.owner(a.cfg.Owner) // the chain may have an owner that the log lacks
	}
	if other, err := a.isAnother(ctx); err != nil || other {
		return err
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(a.fold.owners)), 100) {
		commitments, reached, err := a.cfg.Chain.Commitments(ctx, some)
		if err == nil && len(commitments) != len(some) {
			err = fmt.Errorf("%d answers to %d questions", len(commitments), len(some))
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			a.report.incomplete("the chain: %v", err)
			return nil
		}
		for i, name := range some {
			o, c := a.fold.owners[name], commitments[i]
			if b := o.newest(); b != nil && (c == nil || c.Size < b.size) && reached < *b.slot { // it may hold it later
				a.report.incomplete("the chain: the node has reached slot %d, a batch of %s was confirmed in slot %d: ask again, or ask another node", reached, name, *b.slot)
				return nil
			}
			if err := a.checkAccount(ctx, o, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// isAnother reports whether the chain differs from the chain of the recorded batches,
// or does not answer. A wrong chain is one finding: its accounts mean nothing here.
func (a *auditor) isAnother(ctx context.Context) (bool, error) {
	genesis, err := a.cfg.Chain.GenesisHash(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return true, ctx.Err()
		}
		a.report.incomplete("the chain: %v", err)
		return true, nil
	}
	clusters, owners, newest := map[string]int{}, map[events.Owner]bool{}, uint64(0)
	for _, o := range a.fold.owners {
		for _, b := range o.committed {
			clusters[*b.cluster]++
			owners[o.name] = true
			newest = max(newest, b.seq)
		}
	}
	if len(clusters) == 0 || clusters[genesis] > 0 {
		return false, nil
	}
	var only events.Owner // set if all batches have the same owner
	if len(owners) == 1 {
		only = slices.Collect(maps.Keys(owners))[0]
	}
	a.report.wrong(CheckOnchain, only, newest, "the chain is another one: its genesis hash is %s, the batches were confirmed on %s; no account was compared",
		genesis, strings.Join(slices.Sorted(maps.Keys(clusters)), ", "))
	return true, nil
}

// newest returns the owner's largest confirmed batch, nil if there is none.
func (o *owner) newest() *batch {
	if len(o.committed) == 0 {
		return nil
	}
	return o.committed[0]
}

func (a *auditor) checkAccount(ctx context.Context, o *owner, c *Commitment) error {
	recorded := o.newest()
	switch {
	case c == nil && recorded == nil:
		return nil
	case c == nil:
		a.report.wrong(CheckOnchain, o.name, recorded.seq, "size %d is recorded as confirmed, there is no commitment account", recorded.size)
		return nil
	}
	a.report.summary.Accounts++
	if recorded != nil && c.Size < recorded.size {
		a.report.wrong(CheckOnchain, o.name, recorded.seq, "size %d is recorded as confirmed, the account holds size %d", recorded.size, c.Size)
	}
	for _, b := range o.committed {
		a.comparePlace(b, c)
	}
	if c.Size > uint64(len(o.leaves)) {
		subject := events.Subject{Family: events.FamilyLedger, Owner: o.name, Kind: events.KindMemory}
		if err := a.readOn(ctx, subject.String(), func(e *events.Event) {
			if data, ok := e.Data.(*events.MemoryWritten); ok {
				o.leaves = append(o.leaves, data.LeafHash)
			}
		}); err != nil {
			return err
		}
	}
	if size := uint64(len(o.leaves)); c.Size > size {
		a.report.wrong(CheckOnchain, o.name, 0, "commitment account: it has committed to %d leaves, the log holds %d: leaves were taken out of the log", c.Size, size)
		return nil
	}
	a.fold.claim(o, claim{check: CheckOnchain, what: "commitment account", size: c.Size, root: c.Root})
	return nil
}

// comparePlace compares the fields of a confirmed batch that receipts quote with the
// account: the account's place, and its slot while the account has the batch's size.
func (a *auditor) comparePlace(b *batch, c *Commitment) {
	differs := func(what string, recorded, is any) {
		a.report.wrong(CheckOnchain, b.owner.name, b.seq, "size %d is recorded as confirmed with %s %v, which is %v", b.size, what, recorded, is)
	}
	for _, place := range []struct{ what, recorded, is string }{
		{"cluster", *b.cluster, c.Cluster}, {"program", *b.program, c.ProgramID}, {"account", *b.account, c.Account},
	} {
		if place.recorded != place.is {
			differs(place.what, place.recorded, place.is)
		}
	}
	if b.size == c.Size && *b.slot != c.Slot {
		differs("slot", *b.slot, c.Slot)
	}
}
