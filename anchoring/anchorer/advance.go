package anchorer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify"
)

var (
	// errAhead says that an account holds more leaves than the log has.
	errAhead = errors.New("the account is ahead of the log")
	// errFork says that an account holds a different root for leaves that the log has.
	errFork = errors.New("the account holds another root")
	// errLandedWithout says that a commit succeeded but the account does not hold it.
	errLandedWithout = errors.New("the transaction succeeded, but the account does not hold what it committed")
	// errStalled says that the chain answers, but keeps no commit.
	errStalled = errors.New("transactions come to nothing")
)

// advance looks at every flight and ends those whose outcome is known.
//
// The order of the reads makes giving up safe: first the finalized height (read by the
// caller), then the statuses, then the accounts, each from a node that had reached at
// least the point of the read before. The genesis hash is read last: it shows that all of
// these reads were about the right chain.
func (d *driver) advance(ctx context.Context, height chain.Height) error {
	if err := d.poll(ctx, height); err != nil {
		d.status.setChain(err, d.cfg.Now())
		return nil
	}
	var reading, ending []*flight
	for _, f := range d.flights {
		switch f.verdict(height) {
		case landed, gone:
			reading = append(reading, f)
		case failed:
			ending = append(ending, f)
		}
	}
	genesis := d.genesis
	held, err := d.readBack(ctx, reading, height)
	if err == nil && len(reading) > 0 {
		err = d.checkGenesis(ctx)
	}
	if err == nil && d.genesis != genesis {
		err = errReset
	}
	if err != nil {
		d.status.setChain(err, d.cfg.Now())
		reading = nil // none of these reads can be trusted
	}
	for _, f := range reading {
		if err := d.settle(ctx, f, f.status != nil, held); err != nil {
			return err
		}
	}
	for _, f := range ending {
		if err := d.giveUp(ctx, f); err != nil {
			return err
		}
	}
	return d.transmit(ctx)
}

// poll reads the status of every flight. For flights that may have ended long ago it
// searches the whole history.
func (d *driver) poll(ctx context.Context, height chain.Height) error {
	var recent, old []*flight
	for _, f := range d.flights {
		f.polled, f.searched, f.status = false, false, nil
		if f.resumed || f.past(height) {
			old = append(old, f)
		} else {
			recent = append(recent, f)
		}
	}
	if err := d.pollGroup(ctx, recent, height, false); err != nil {
		return err
	}
	return d.pollGroup(ctx, old, height, true)
}

func (d *driver) pollGroup(ctx context.Context, flights []*flight, height chain.Height, history bool) error {
	for group := range slices.Chunk(flights, chain.MaxStatuses) {
		signatures := make([]string, len(group))
		for i, f := range group {
			signatures[i] = f.Signature
		}
		statuses, slot, err := d.cfg.Chain.Statuses(ctx, signatures, history)
		if err != nil {
			return err
		}
		for i, f := range group {
			if statuses[i] == nil && slot < height.Slot {
				continue // a node that is behind can't know the transaction
			}
			f.polled, f.searched, f.status = true, history, statuses[i]
			f.resumed = f.resumed && statuses[i] == nil && f.sentAt.IsZero()
		}
	}
	return nil
}

// readBack reads the accounts of flights. The result has no entry for an owner whose
// account was read from a node that was behind, and nil for an owner whose account does
// not exist.
func (d *driver) readBack(ctx context.Context, flights []*flight, height chain.Height) (map[events.Owner]*commitment.Account, error) {
	type wanted struct {
		owner *owner
		slot  uint64
	}
	var all []wanted
	for _, f := range flights {
		slot := height.Slot
		if f.status != nil {
			slot = f.status.Slot
		}
		for _, o := range f.owners {
			all = append(all, wanted{o, slot})
		}
	}
	held := make(map[events.Owner]*commitment.Account, len(all))
	for group := range slices.Chunk(all, chain.MaxAccounts) {
		keys := make([]solana.PublicKey, len(group))
		for i, w := range group {
			keys[i] = d.signer.address(w.owner)
		}
		accounts, slot, err := d.cfg.Chain.Accounts(ctx, keys, chain.Finalized)
		if err != nil {
			return nil, err
		}
		for i, w := range group {
			if slot >= w.slot {
				held[w.owner.key] = d.understood(accounts[i], w.owner)
			}
		}
	}
	return held, nil
}

// understood returns the commitment in an account, or nil if the account holds none of
// ours. The slot is recorded; see package chain for its bound.
func (d *driver) understood(a *chain.Account, o *owner) *commitment.Account {
	if a == nil || a.Owner != d.signer.program {
		return nil
	}
	c, err := verify.DecodeAccount(a.Data)
	if err != nil || c.Slot > math.MaxInt64 || c.Authority != d.signer.key.PublicKey() || c.Owner != solana.PublicKey(o.key.Bytes()) {
		return nil
	}
	return &c
}

// settle ends the batches of a flight by the contents of the accounts. A batch is
// confirmed if the account holds exactly its commit, and failed if that commit can no
// longer land. A crash on the way leaves the remaining batches submitted. The next
// anchorer finds them landed or gone.
func (d *driver) settle(ctx context.Context, f *flight, succeeded bool, held map[events.Owner]*commitment.Account) error {
	var records []record
	var lamports uint64
	for _, o := range slices.Clone(f.owners) {
		account, read := held[o.key]
		if !read {
			continue
		}
		b := o.Batch
		if account != nil && account.Size == b.Size && account.Root == [32]byte(b.Root) {
			records = append(records, record{o, &events.BatchConfirmed{
				BatchID: b.ID, Size: b.Size, Root: b.Root, Signature: f.Signature, Slot: account.Slot,
				Cluster: d.genesis, ProgramID: d.signer.program.String(), Account: d.signer.address(o).String(),
			}})
			lamports += shareOf(f.Transaction, !o.Created, d.rent.Load())
			continue
		}
		why, alarm := lacking(account, o, succeeded)
		if alarm {
			d.keepBack(o.key, hold{alarm: why, alone: true}, 10*time.Second, 10*time.Minute)
		}
		records = append(records, record{o, failure(f, b, why)})
	}
	confirmed, err := d.end(ctx, f, records)
	if err != nil {
		return err
	}
	if confirmed > 0 {
		d.streak, d.resting, d.stalled = 0, time.Time{}, nil
		d.status.setAlarm(d.firstAlarm())
		d.status.setFunds(d.unpaid) // the authority could pay for these; the next batch checks again
		d.metrics.spent.Add(float64(lamports))
	} else if len(f.owners) == 0 {
		d.cameToNothing(cmp.Or(f.untaken, errors.New("expired")))
	}
	return nil
}

// lacking says why an account does not hold a batch's commit. alarm is true if an
// operator must look into it.
func lacking(account *commitment.Account, o *owner, succeeded bool) (why error, alarm bool) {
	switch {
	case account != nil && account.Size > o.size():
		return fmt.Errorf("%w: it holds %d leaves, the log %d", errAhead, account.Size, o.size()), true
	case account != nil && account.Size == o.Batch.Size:
		return fmt.Errorf("%w: at %d leaves it has %x, the log %s", errFork, account.Size, account.Root, o.Batch.Root), true
	case account != nil && account.Size > o.Batch.Size:
		return fmt.Errorf("superseded: the account holds %d leaves", account.Size), false
	case succeeded:
		return errLandedWithout, true
	}
	return errors.New("expired: the finalized chain is past its last valid block and does not have it"), false
}

func failure(f *flight, b *batch, why error) *events.BatchFailed {
	return &events.BatchFailed{BatchID: b.ID, Signature: f.Signature, Reason: why.Error()}
}

// giveUp ends a flight that failed or was refused. New batches are cut at once for its
// owners, except for the owner whose instruction failed. That owner is tried again later,
// alone in a transaction, so that the others land.
func (d *driver) giveUp(ctx context.Context, f *flight) error {
	reason := f.reason()
	culprit, known := f.culprit()
	var records []record
	for _, o := range f.owners {
		why := reason
		if known && o.key != culprit {
			why = fmt.Errorf("packed with one that failed: %w", reason)
		}
		records = append(records, record{o, failure(f, o.Batch, why)})
	}
	tried := known && d.alone(culprit)
	if known {
		h := hold{alone: true, alarm: fmt.Errorf("its commit is refused: %w", reason)}
		if errors.Is(reason, program.ErrShrinks) || errors.Is(reason, program.ErrForks) { // because of what the account holds
			h.alarm = fmt.Errorf("%w; the chain holds more than the log, as where the log was restored: "+
				"the owner is anchored again once the log is longer than what was committed", h.alarm)
		}
		d.keepBack(culprit, h, 10*time.Second, 10*time.Minute)
	}
	if failed, ok := errors.AsType[*program.InstructionError](reason); ok && isFunds(failed) {
		d.status.setFunds(fmt.Errorf("%w: %w", errUnfunded, reason))
	}
	if _, err := d.end(ctx, f, records); err != nil {
		return err
	}
	if !tried { // else its own hold slows it down
		d.cameToNothing(reason)
	}
	return nil
}

// cameToNothing slows down when flight after flight fails: filling the log with attempts
// does not fix the cause. Flights that fail during a rest were on their way before it, and
// failed of the same cause.
func (d *driver) cameToNothing(why error) {
	d.cfg.Logger.Warn("a transaction came to nothing", "err", why, "in a row", d.streak+1)
	if d.cfg.Now().Before(d.resting) {
		return
	}
	d.streak++
	const patience = 4
	if d.streak > patience {
		d.resting = d.cfg.Now().Add(min(5*time.Minute, time.Second<<min(d.streak-patience, 16)))
		d.stalled = fmt.Errorf("%w: %d in a row, the newest: %w", errStalled, d.streak, why)
		d.status.setAlarm(d.firstAlarm())
	}
}

// end appends the last events of a flight's batches and removes their owners from the
// flight. It also removes owners for whom another anchorer appended first.
func (d *driver) end(ctx context.Context, f *flight, records []record) (confirmed int, err error) {
	batches := make([]*batch, len(records))
	for i, r := range records {
		batches[i] = r.owner.Batch
	}
	stored, err := d.append(ctx, records)
	if err != nil {
		return 0, err
	}
	for i, r := range records {
		f.drop(r.owner.key)
		if _, ok := r.data.(*events.BatchConfirmed); ok && stored[i] {
			confirmed++
			d.clear(r.owner.key)
			d.metrics.latency.Observe(d.cfg.Now().Sub(batches[i].Oldest).Seconds())
		}
	}
	if len(f.owners) == 0 {
		delete(d.flights, f.Signature)
	}
	return confirmed, nil
}

// transmit sends each transaction that was not sent yet. It resends, with the same bytes,
// each one that was last sent at least ResendEvery ago. A transaction goes through
// preflight until it has passed preflight once. Only a status shows that the chain got a
// transaction.
func (d *driver) transmit(ctx context.Context) error {
	now := d.cfg.Now()
	for _, f := range d.flights {
		if f.refused != nil || f.status != nil || !f.sentAt.IsZero() && now.Sub(f.sentAt) < d.cfg.ResendEvery {
			continue
		}
		if f.resumed && !f.polled {
			continue // it may have landed long ago: poll first
		}
		f.sentAt = now
		err := d.cfg.Chain.Send(ctx, f.Transaction, !f.accepted)
		f.untaken = cmp.Or(f.untaken, err)
		var refusal *program.InstructionError
		switch {
		case err == nil:
			f.accepted, f.untaken = true, nil
		case errors.As(err, &refusal) && isFunds(refusal):
			d.status.setFunds(fmt.Errorf("%w: %w", errUnfunded, err))
		case errors.As(err, &refusal) && refusal.Index < 0: // it is not about the transaction: the node is behind, or has seen it
			d.cfg.Logger.Debug("not taken yet", "signature", f.Signature, "err", err)
		case errors.As(err, &refusal):
			f.refused = err
		default: // the other sends would fail too, and count against an endpoint's limit
			d.status.setChain(err, now)
			return ctx.Err()
		}
	}
	return ctx.Err()
}
