package anchorer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/projector"
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

var must, errorOf = testkit.Must, testkit.ErrorOf

// For any owners, a full pack fits, and decodes to the commits that went in.
func TestPacksFit(t *testing.T) {
	t.Parallel()
	s := signer{solana.NewWallet().PrivateKey, program.LocalID, 1 << 40}
	for n := 1; n <= packed; n++ {
		var owners []*owner
		for i := range n {
			o := newOwner(logtest.Owner())
			o.Batch = &batch{ID: newID(), Size: 1 << (8 * i), Root: events.Hash{byte(i)}}
			owners = append(owners, o)
		}
		tx, err := s.sign(owners, chain.Blockhash{Hash: solana.Hash{1}})
		must(t, err)
		c, err := parse(tx.Transaction)
		if err != nil || len(c.commits) != n || c.fee <= signatureCharge {
			t.Fatalf("%d commits: %+v, %v", n, c, err)
		}
		f := &flight{attempt: tx}
		for i, o := range owners {
			if !f.commits(o) {
				t.Errorf("commit %d of %d is not the owner's", i, n)
			}
			o.Batch.Size++
			if f.commits(o) {
				t.Error("a commit of another size passes for the owner's")
			}
			o.Batch.Size--
			o.Batch.Root[0]++
			if f.commits(o) {
				t.Error("a commit of another root passes for the owner's")
			}
		}
		if shareOf(tx.Transaction, true, 1000)*uint64(n) < c.fee+1000*uint64(n) {
			t.Errorf("%d shares do not pay for the whole", n)
		}
	}
	if _, err := parse([]byte{1, 2, 3}); err == nil {
		t.Error("garbage is a transaction of ours")
	}
}

// TestRentIsSpentOnce for an account: the later transactions of an earlier authority or program,
// which the log has, create none.
func TestRentIsSpentOnce(t *testing.T) {
	t.Parallel()
	const rent = 1_000_000
	ours := signer{solana.NewWallet().PrivateKey, program.LocalID, 0}
	by, to := signer{solana.NewWallet().PrivateKey, program.LocalID, 0}, signer{ours.key, otherProgram, 0}
	f := &fold{&Anchorer{signer: ours, rent: new(atomic.Uint64)}}
	f.anchorer.rent.Store(rent)
	for i, c := range []struct {
		signer
		confirmed       uint64
		created, counts bool
	}{{by, 0, false, true}, {by, 1, false, false}, {to, 1, false, false}, {ours, 0, false, true}, {ours, 1, false, true}, {ours, 1, true, false}} {
		o, spent := newOwner(logtest.Owner()), map[string]uint64{}
		o.ConfirmedSize, o.Created, o.Batch = c.confirmed, c.created, &batch{Size: 2}
		tx, err := c.sign([]*owner{o}, chain.Blockhash{Hash: solana.Hash{1}})
		must(t, err)
		must(t, f.record(o, &projector.Record{Events: []events.Event{{Data: &events.BatchSubmitted{Transaction: tx.Transaction}}}}, spent, new(string)))
		if lamports := spent["0001-01-01"]; lamports < signatureCharge || lamports >= rent != c.counts {
			t.Errorf("%d: %d lamports", i, lamports)
		}
	}
}

// Compare the fold with a model: random leaves and random batch lifecycles.
func TestFold(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	for range 100 {
		o := newOwner(logtest.Owner())
		var leaves []events.Hash
		var confirmed uint64
		now := start
		for range 200 {
			now = now.Add(time.Second)
			switch b := o.Batch; {
			case rand.IntN(2) == 0:
				leaf := events.Hash{byte(rand.Int()), byte(rand.Int())}
				must(t, o.leaf(&events.MemoryWritten{LeafIndex: uint64(len(leaves)), LeafHash: leaf}, now))
				leaves = append(leaves, leaf)
			case b == nil && !o.Waiting.IsZero() && rand.IntN(2) == 0:
				must(t, o.fold(&events.BatchCut{BatchID: newID(), Size: o.size(), Root: o.frontier.Root()}, now))
			case b == nil:
				must(t, o.fold(&events.BatchFailed{BatchID: newID()}, now)) // late, for an unknown batch
			case b.Tried == nil:
				must(t, o.fold(&events.BatchSubmitted{BatchID: b.ID, Signature: "s"}, now))
			case rand.IntN(3) == 0:
				must(t, o.fold(&events.BatchFailed{BatchID: b.ID}, now))
			default:
				must(t, o.fold(&events.BatchConfirmed{BatchID: b.ID, Size: b.Size, Root: b.Root}, now))
				confirmed = b.Size
			}
			if o.size() != uint64(len(leaves)) || o.frontier.Root() != rootOf(leaves) || o.ConfirmedSize != confirmed {
				t.Fatalf("%d leaves, %d confirmed: %+v", len(leaves), confirmed, o)
			}
			covered := confirmed
			if o.Batch != nil {
				covered = o.Batch.Size
			}
			if o.Waiting.IsZero() != (covered == o.size()) {
				t.Fatalf("%d leaves, %d covered, waiting since %v", o.size(), covered, o.Waiting)
			}
		}
	}
}

// Transactions in flight are not paid yet, the reserve of the authority's own account
// must stay, and spending counts on the UTC day on which it happened.
func TestWhatIsLeftToSpend(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	l.now = time.Date(2026, 2, 28, 20, 0, 0, 0, time.FixedZone("", -5*3600)) // March 1 in UTC
	must(t, errorOf(l.store.pool.Exec(t.Context(), `INSERT INTO ledger_anchor.spending (day, lamports) VALUES ('2026-02-28', 1), ('2026-03-01', 700000)`)))
	l.flights = map[string]*flight{"s": {owners: []*owner{l.owner(1, 2), l.owner(1, 2)}}}
	const reserve, pending = 890_000, 2 * signatureCharge
	for _, c := range []struct {
		balance, bound, left uint64
		short                error
	}{
		{reserve + pending + 1, 0, 1, errUnfunded},
		{reserve + pending, 0, 0, errUnfunded},
		{reserve - 1, 0, 0, errUnfunded},
		{1 << 40, 700_000 + pending + 1, 1, errBound},
		{1 << 40, 700_000 + pending, 0, errBound},
		{1 << 40, 1, 0, errBound},
		{reserve + pending + 1, 1 << 40, 1, errUnfunded},
	} {
		l.cfg.Chain, l.cfg.MaxLamportsPerDay = fundedChain{balance: c.balance, reserve: reserve}, c.bound
		if left, short, err := l.budget(t.Context()); err != nil || left != c.left || short != c.short {
			t.Errorf("%d lamports, bound to %d: %d left, short is %v, %v", c.balance, c.bound, left, short, err)
		}
	}
}

// comes waits until a process works, or stands by.
func (w *world) comes(p *process, standby bool) {
	w.t.Helper()
	testkit.Await(w.t, "an anchorer is what it should be", func() bool {
		s := p.folding.Status()
		return s.Err == nil && (s.State == projector.Standby) == standby && s.Works() != standby
	})
}

// TestKilledAnywhere kills the anchorer at every point, before the action or after it
// with the answer lost. Then another anchorer finishes the work.
func TestKilledAnywhere(t *testing.T) {
	t.Parallel()
	points := []struct {
		name    string
		counts  []int32
		refused int // of the owners' commits
	}{
		{"append BatchCut", []int32{1}, 0},
		{"append BatchSubmitted", []int32{1, 3}, 0},
		{"append BatchConfirmed", []int32{3}, 0},
		{"append BatchFailed", []int32{1, 3}, 1}, // while it gives up a refused pack
		{"send", []int32{1}, 0},
		{"status", []int32{1}, 0},
		{"account", []int32{1}, 0},
		{"checkpoint", []int32{1, 3}, 0},
	}
	for _, p := range points {
		for _, count := range p.counts {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %d after=%v", p.name, count, after), func(t *testing.T) {
					t.Parallel()
					killedOnce(t, &killer{point: p.name, count: count, after: after}, p.refused)
				})
			}
		}
	}
}

func killedOnce(t *testing.T, k *killer, refused int) {
	w := newWorld(t, false)
	keys := w.owners(3 + refused)
	bad := keys[3:]
	for _, key := range bad {
		w.fork(key, 1)
	}
	first := w.start(k, nil)
	select {
	case <-first.ended:
	case <-time.After(patience):
		t.Fatal("the anchorer never came to the point where it is killed")
	}
	w.write(keys[0], 2) // writes continue
	w.start(nil, nil)
	w.allAnchored(bad...)
	w.write(keys[1], 1)
	w.allAnchored(bad...)
}
