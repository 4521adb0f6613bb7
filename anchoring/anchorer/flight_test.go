package anchorer

import (
	"context"
	"errors"
	"testing"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
)

// A transaction is given up only when it can no longer land. New batches are then cut for
// its owners, and another transaction commits them.
func TestVerdict(t *testing.T) {
	t.Parallel()
	const lastValid = 100
	failure, refusal := errors.New("it failed"), errors.New("it is refused")
	landedAs := func(c chain.Commitment, err error) *chain.Status { return &chain.Status{Commitment: c, Err: err} }
	for name, c := range map[string]struct {
		flight flight
		block  uint64
		want   verdict
	}{
		"nobody was asked": {flight{searched: true}, lastValid + 1, wait},
		"unknown, and refused before anybody was asked": {flight{refused: refusal}, 1, wait},
		"unknown":                               {flight{polled: true}, 1, wait},
		"unknown in its last block":             {flight{polled: true, searched: true}, lastValid, wait},
		"unknown after it":                      {flight{polled: true, searched: true}, lastValid + 1, gone},
		"unknown after it to those who forget":  {flight{polled: true}, lastValid + 1, wait},
		"refused":                               {flight{polled: true, refused: refusal}, 1, failed},
		"refused, and there":                    {flight{polled: true, refused: refusal, status: landedAs(chain.Finalized, nil)}, 1, landed},
		"there":                                 {flight{polled: true, status: landedAs("processed", nil)}, 1, wait},
		"confirmed":                             {flight{polled: true, status: landedAs(chain.Confirmed, nil)}, 1, wait},
		"finalized":                             {flight{polled: true, status: landedAs(chain.Finalized, nil)}, 1, landed},
		"confirmed after its last block":        {flight{polled: true, searched: true, status: landedAs(chain.Confirmed, nil)}, lastValid + 1, wait},
		"failed, which another fork may not do": {flight{polled: true, status: landedAs(chain.Confirmed, failure)}, 1, wait},
		"failed for good":                       {flight{polled: true, status: landedAs(chain.Finalized, failure)}, 1, failed},
	} {
		c.flight.LastValid = lastValid
		if got := c.flight.verdict(chain.Height{Block: c.block}); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// behind is a chain as seen through a node that has reached slot.
type behind struct {
	Chain
	slot    uint64
	status  *chain.Status
	account *chain.Account
}

func (b behind) Statuses(_ context.Context, signatures []string, _ bool) ([]*chain.Status, uint64, error) {
	statuses := make([]*chain.Status, len(signatures))
	for i := range statuses {
		statuses[i] = b.status
	}
	return statuses, b.slot, nil
}

func (b behind) Accounts(_ context.Context, keys []solana.PublicKey, _ chain.Commitment) ([]*chain.Account, uint64, error) {
	accounts := make([]*chain.Account, len(keys))
	for i := range accounts {
		accounts[i] = b.account
	}
	return accounts, b.slot, nil
}

// A node that is behind the first one can't show that something does not exist on the
// chain.
func TestANodeThatIsBehindSaysNothing(t *testing.T) {
	t.Parallel()
	const slot = 50
	height := chain.Height{Block: 1000, Slot: slot}
	for _, c := range []struct {
		slot   uint64
		status *chain.Status
		polled bool // the node's answer about the transaction counts
		read   bool // the node's answer about the account counts
	}{
		{slot - 1, nil, false, false},
		{slot, nil, true, true},
		{slot - 1, &chain.Status{Slot: slot - 2}, true, true},
		{slot, &chain.Status{Slot: slot + 1}, true, false},
	} {
		o := newOwner(logtest.Owner())
		f := &flight{attempt: attempt{Signature: "s", LastValid: 1}, owners: []*owner{o}}
		d := &driver{
			cfg:     &Config{Chain: behind{slot: c.slot, status: c.status}},
			signer:  signer{key: solana.NewWallet().PrivateKey, program: program.LocalID},
			flights: map[string]*flight{"s": f},
		}
		must(t, d.poll(t.Context(), height))
		if f.polled != c.polled || f.status != c.status {
			t.Errorf("at %d with %v: polled %t, %v", c.slot, c.status, f.polled, f.status)
		}
		held, err := d.readBack(t.Context(), []*flight{f}, height)
		must(t, err)
		if _, read := held[o.key]; read != c.read {
			t.Errorf("at %d with %v: the account is read: %t", c.slot, c.status, read)
		}
	}
}

// Only our own commitment to this owner's log shows what is anchored.
func TestOnlyOurOwnCommitmentCounts(t *testing.T) {
	t.Parallel()
	o := newOwner(logtest.Owner())
	d := &driver{signer: signer{key: solana.NewWallet().PrivateKey, program: program.LocalID}}
	ours := commitment.Account{Authority: d.signer.key.PublicKey(), Owner: o.key.Bytes(), Size: 3, Root: [32]byte{1}}
	encoded := func(change func(*commitment.Account)) []byte {
		c := ours
		change(&c)
		return c.Encode()
	}
	good := encoded(func(*commitment.Account) {})
	for name, c := range map[string]struct {
		account *chain.Account
		good    bool
	}{
		"ours":                         {&chain.Account{Owner: program.LocalID, Data: good}, true},
		"none":                         {nil, false},
		"of another program":           {&chain.Account{Owner: solana.SystemProgramID, Data: good}, false},
		"of another authority":         {&chain.Account{Owner: program.LocalID, Data: encoded(func(c *commitment.Account) { c.Authority[0]++ })}, false},
		"to the log of somebody else":  {&chain.Account{Owner: program.LocalID, Data: encoded(func(c *commitment.Account) { c.Owner[0]++ })}, false},
		"of a slot that can't be kept": {&chain.Account{Owner: program.LocalID, Data: encoded(func(c *commitment.Account) { c.Slot = 1 << 63 })}, false},
		"of another form":              {&chain.Account{Owner: program.LocalID, Data: good[1:]}, false},
	} {
		if got := d.understood(c.account, o); (got != nil) != c.good || c.good && *got != ours {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
