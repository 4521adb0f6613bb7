package anchorer

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/projections/projector"
)

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
