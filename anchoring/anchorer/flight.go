package anchorer

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
)

// flight is a recorded transaction whose outcome is not known yet, and the owners whose
// open batches it commits.
type flight struct {
	attempt
	owners []*owner

	accepted bool      // preflight accepted it, in this process
	refused  error     // set: preflight refused it for good
	untaken  error     // why the node did not accept it so far: the first answer names the cause
	sentAt   time.Time // last send by this process; zero: none
	resumed  bool      // not signed by this session

	// The result of the newest poll.
	polled   bool          // there was a poll with a usable answer
	searched bool          // it covered the whole history
	status   *chain.Status // nil: unknown
}

// verdict is the decision about a flight.
type verdict int

const (
	// wait: nothing is certain yet.
	wait verdict = iota
	// landed: the transaction succeeded; the accounts show what they hold.
	landed
	// gone: it can no longer land, but may have landed before; the accounts decide.
	gone
	// failed: it landed and failed, which is final, or preflight refused it.
	failed
)

// verdict decides from the newest poll, which was made after height was read.
func (f *flight) verdict(height chain.Height) verdict {
	s := f.status
	switch {
	case !f.polled:
		return wait
	case s == nil && f.searched && f.past(height):
		return gone
	case s == nil && f.refused != nil:
		return failed
	case s == nil || s.Commitment != chain.Finalized:
		return wait
	case s.Err != nil:
		return failed
	}
	return landed
}

// past reports whether the transaction can no longer land: its last block has passed, or
// is so far ahead that the chain was exchanged, or put back to an earlier state.
func (f *flight) past(height chain.Height) bool {
	// This is more blocks than a blockhash lives, and than finality lags.
	return height.Block > f.LastValid || f.LastValid > height.Block+10_000
}

func (f *flight) reason() error {
	if f.status != nil && f.status.Err != nil {
		return f.status.Err
	}
	return f.refused
}

// culprit returns the owner whose instruction failed, if one owner's instruction did.
func (f *flight) culprit() (events.Owner, bool) {
	var failure *program.InstructionError
	if !errors.As(f.reason(), &failure) || isFunds(failure) {
		return "", false
	}
	c, err := parse(f.Transaction)
	i := failure.Index - budgetInstructions
	if err != nil || i < 0 || i >= len(c.commits) {
		return "", false
	}
	return events.OwnerFromBytes(c.commits[i].Owner), true
}

// isFunds reports whether a transaction failed because the authority can't pay the fee,
// or can't pay the rent (the system program's custom error 1).
func isFunds(e *program.InstructionError) bool {
	const systemInsufficient = 1
	if e.Custom {
		return e.Code == systemInsufficient
	}
	return e.Index < 0 && (strings.Contains(e.Reason, "InsufficientFunds") || e.Reason == "AccountNotFound" || e.Reason == "InvalidAccountForFee")
}

func (f *flight) drop(key events.Owner) {
	f.owners = slices.DeleteFunc(f.owners, func(o *owner) bool { return o.key == key })
}
