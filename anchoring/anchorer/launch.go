package anchorer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/projections/tree"
)

const accountLen = verify.AccountLen

var (
	// errDisagree says that the tree cache makes proofs from a different tree than the
	// events make. Nothing is signed for that owner.
	errDisagree = errors.New("the tree cache differs from the log")
	// errUnfunded says that the authority can't pay.
	errUnfunded = errors.New("the authority has too few lamports")
	// errBound says that today's spending bound is reached.
	errBound = errors.New("today's spending bound is reached")
)

// launch moves owners that are not busy forward, from any state, up to a transaction in
// flight.
func (d *driver) launch(ctx context.Context, work []*owner) error {
	// Recorded transactions come first. Such a transaction may commit owners whose own
	// record of it is missing. These owners must not get into a second transaction.
	for _, o := range work {
		if o.Batch != nil && o.Batch.Tried != nil && d.busy[o.key] == 0 {
			if err := d.adopt(ctx, o); err != nil {
				return err
			}
		}
	}
	var unsigned []*owner
	for _, o := range work {
		if d.busy[o.key] == 0 && (o.Batch == nil || o.Batch.Tried == nil) {
			unsigned = append(unsigned, o)
		}
	}
	if len(unsigned) > 0 && d.cfg.Now().After(d.resting) {
		if err := d.begin(ctx, unsigned); err != nil {
			return err
		}
	}
	return d.transmit(ctx)
}

// adopt puts a recorded transaction into flight with all owners in it. If a crash
// interrupted its recording, adopt first completes the recording: for every owner whose
// cut batch is the one that the transaction commits.
func (d *driver) adopt(ctx context.Context, first *owner) error {
	f := d.flights[first.Batch.Tried.Signature]
	if f == nil {
		f = &flight{attempt: *first.Batch.Tried, resumed: true}
	}
	owners := []*owner{first}
	if c, err := parse(f.Transaction); err == nil {
		keys := make([]events.Owner, len(c.commits))
		for i := range c.commits {
			keys[i] = events.OwnerFromBytes(c.commits[i].Owner)
		}
		if owners, err = d.store.load(ctx, keys); err != nil {
			return err
		}
	}
	var missing []record
	for _, o := range owners {
		b := o.Batch
		switch {
		case d.busy[o.key] != 0 || b == nil:
		case b.Tried != nil && b.Tried.Signature == f.Signature:
			f.owners = append(f.owners, o)
			d.busy[o.key] = inFlight
		case b.Tried == nil && f.commits(o):
			missing = append(missing, record{o, submitted(b, &f.attempt)})
		}
	}
	d.flights[f.Signature] = f
	return d.register(ctx, f, missing)
}

// commits reports whether the transaction commits the owner's open batch.
func (f *flight) commits(o *owner) bool {
	c, err := parse(f.Transaction)
	if err != nil {
		return false
	}
	for _, in := range c.commits {
		if events.OwnerFromBytes(in.Owner) == o.key {
			return in.Size == o.Batch.Size && in.Root == [32]byte(o.Batch.Root)
		}
	}
	return false
}

func submitted(b *batch, a *attempt) *events.BatchSubmitted {
	return &events.BatchSubmitted{
		BatchID: b.ID, Size: b.Size, Root: b.Root, Signature: a.Signature,
		Blockhash: a.Blockhash, LastValidBlockHeight: a.LastValid, Transaction: a.Transaction,
	}
}

// register records a transaction for owners before its first byte is sent. A crash on the
// way leaves it recorded for some of them; adopt completes the recording.
func (d *driver) register(ctx context.Context, f *flight, records []record) error {
	stored, err := d.append(ctx, records)
	if err != nil {
		return err
	}
	for i, r := range records {
		if stored[i] {
			f.owners = append(f.owners, r.owner)
		}
	}
	if len(f.owners) == 0 {
		delete(d.flights, f.Signature)
	}
	return nil
}

// begin cuts batches for the owners that have none, and signs transactions for all.
func (d *driver) begin(ctx context.Context, owners []*owner) error {
	owners, err := d.affordable(ctx, owners)
	if err != nil || len(owners) == 0 {
		return err
	}
	// Read the blockhash first: while the chain can't be reached, no batch is cut, and
	// the leaves wait for one batch instead of many.
	latest, err := d.cfg.Chain.LatestBlockhash(ctx)
	if err != nil {
		d.status.setChain(err, d.cfg.Now())
		return nil
	}
	owners, err = d.cut(ctx, owners)
	if err != nil {
		return err
	}
	for _, pack := range packs(owners, d.alone) {
		signed, err := d.signer.sign(pack, latest)
		if err != nil {
			return err
		}
		f := &flight{attempt: signed}
		records := make([]record, len(pack))
		for i, o := range pack {
			records[i] = record{o, submitted(o.Batch, &f.attempt)}
		}
		d.flights[f.Signature] = f
		if err := d.register(ctx, f, records); err != nil {
			return err
		}
	}
	return nil
}

// affordable returns the owners, in their order, that are verified and that the
// authority's balance and today's bound can pay for. An owner's first commit costs some
// thousand times as much as a later one. An owner that costs too much is skipped and does
// not stop the owners behind it. An owner that can't be verified does not stop them
// either: no money is set aside for it.
func (d *driver) affordable(ctx context.Context, owners []*owner) ([]*owner, error) {
	left, short, err := d.budget(ctx)
	if err != nil || short == nil {
		return nil, err
	}
	paid, out := make([]*owner, 0, len(owners)), 0
	for _, o := range owners {
		// A chain that was put back to an earlier state may lack the account, and then refuses
		// what a later commit costs.
		o.Created = o.Created && !d.alone(o.key)
		cost := d.costOf(o)
		if cost > left {
			out++
			continue
		}
		ok, err := d.verified(ctx, o)
		if err != nil {
			return nil, err
		}
		if ok {
			left -= cost
			paid = append(paid, o)
		}
	}
	d.unpaid = nil
	if out > 0 {
		d.unpaid = fmt.Errorf("%w: %d lamports left and %d owners who cost more, authority %s", short, left, out, d.signer.key.PublicKey())
	}
	d.status.setFunds(d.unpaid)
	return paid, nil
}

// budget returns how many lamports can be spent now, and the error to report if that is
// not enough. Both errors are nil if the chain can't be read. Transactions in flight
// count as not paid yet.
func (d *driver) budget(ctx context.Context) (left uint64, short, err error) {
	balance, err := d.cfg.Chain.Balance(ctx, d.signer.key.PublicKey())
	if err != nil {
		d.status.setChain(err, d.cfg.Now())
		return 0, nil, nil
	}
	d.metrics.balance.Set(float64(balance))
	reserve, err := d.cfg.Chain.Rent(ctx, 0) // for the authority's own account
	if err != nil {
		d.status.setChain(err, d.cfg.Now())
		return 0, nil, nil
	}
	today := d.cfg.Now().UTC().Format(dayLayout)
	spent, err := d.store.spentOn(ctx, today)
	if err != nil {
		return 0, nil, err
	}
	pending := d.inFlightCost()
	left, short = saturating(balance, reserve+pending), errUnfunded
	if bound := d.cfg.MaxLamportsPerDay; bound > 0 {
		// The fold has already counted most transactions in flight. Counting them again
		// errs on the safe side.
		if byDay := saturating(bound, spent+pending); byDay < left {
			left, short = byDay, errBound
		}
	}
	return left, short, nil
}

func saturating(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}

func (d *driver) costOf(o *owner) uint64 {
	cost := d.signer.cost(!o.Created)
	if !o.Created {
		cost += d.rent.Load()
	}
	return cost
}

func (d *driver) inFlightCost() (cost uint64) {
	for _, f := range d.flights {
		for _, o := range f.owners {
			cost += shareOf(f.Transaction, !o.Created, d.rent.Load())
		}
	}
	return cost
}

// verified reports whether the tree cache agrees with the owner's root. If not, the owner
// is tried again later. If the cache disagrees, verified also raises an alarm.
func (d *driver) verified(ctx context.Context, o *owner) (bool, error) {
	err := d.verify(ctx, o)
	switch {
	case err == nil:
		if h := d.held[o.key]; h != nil && (errors.Is(h.alarm, errDisagree) || !h.lacks.IsZero() && !h.alone) {
			d.clear(o.key)
		} else if h != nil {
			h.lacks = time.Time{}
		}
		return true, nil
	case errors.Is(err, tree.ErrIncomplete):
		now, h := d.cfg.Now(), d.held[o.key]
		if h == nil {
			if len(d.held) >= mostHeld { // it is looked at again at once
				return false, nil
			}
			h = &hold{}
			d.held[o.key] = h
		}
		if h.lacks.IsZero() {
			h.lacks = now
		}
		h.until = now.Add(2 * time.Second)
		return false, nil
	case errors.Is(err, errDisagree):
		d.keepBack(o.key, hold{alarm: err}, 5*time.Second, 5*time.Minute)
		return false, nil
	}
	return false, fmt.Errorf("compare with the tree cache: %w", err)
}

// verify compares the owner's own fold of the events with the tree cache, and the batch
// that is about to be signed with that fold. A batch that was cut before newer leaves
// arrived is a prefix of the fold: the tree cache supplies the consistency proof, and
// verify checks the proof against the fold.
func (d *driver) verify(ctx context.Context, o *owner) error {
	size, root := o.size(), o.frontier.Root()
	from, first := size, root
	if o.Batch != nil {
		from, first = o.Batch.Size, o.Batch.Root
	}
	link, err := d.cfg.Tree(ctx, o.key, from, size)
	if err != nil {
		return err
	}
	if link.ToRoot != root {
		return fmt.Errorf("%w: at %d leaves the events give %s, the cache %s", errDisagree, size, root, link.ToRoot)
	}
	second, err := verify.Consistency(from, size, first, link.Path)
	if err == nil && second != root {
		err = fmt.Errorf("it leads to %s, not to %s", second, root)
	}
	if err != nil {
		return fmt.Errorf("%w: the batch cut at %d leaves is no prefix of %d: %w", errDisagree, from, size, err)
	}
	return nil
}

// cut appends BatchCut for the owners without an open batch.
func (d *driver) cut(ctx context.Context, owners []*owner) ([]*owner, error) {
	var records []record
	var ready []*owner
	for _, o := range owners {
		if o.Batch != nil {
			ready = append(ready, o)
			continue
		}
		records = append(records, record{o, &events.BatchCut{
			BatchID: d.cfg.NewID(), FromSize: o.ConfirmedSize, Size: o.size(), Root: o.frontier.Root(),
		}})
	}
	stored, err := d.append(ctx, records)
	for i, r := range records {
		if stored[i] {
			ready = append(ready, r.owner)
		}
	}
	return ready, err
}
