package anchorer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/projections/tree"
)

func (w *world) fault(f localchain.Fault) {
	w.t.Helper()
	w.must(w.chain.Fault(w.t.Context(), f))
}

// turns waits until a process reports the wanted readiness.
func (w *world) turns(p *process, what error) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := p.Ready()
		if errors.Is(err, what) || what == nil && err == nil {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("readiness is %v, want %v", err, what)
		}
		eventlog.Pause(w.t.Context(), 5*time.Millisecond)
	}
}

// The network loses or delays transactions and answers.
func TestLostOnTheWay(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string][]localchain.Fault{
		"transactions lost":      {localchain.Drop(3)},
		"reply to send lost":     {localchain.LoseReply("sendTransaction", 2)},
		"send refused":           {localchain.Fail("sendTransaction", 2)},
		"reply to status lost":   {localchain.LoseReply("getSignatureStatuses", 2), localchain.Fail("getSignatureStatuses", 1)},
		"reply to accounts lost": {localchain.LoseReply("getMultipleAccounts", 2), localchain.Fail("getMultipleAccounts", 1)},
		"genesis hash lost":      {localchain.LoseReply("getGenesisHash", 3)},
		"late confirmation":      {localchain.Lag(60)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			for _, f := range faults {
				w.fault(f)
			}
			w.owners(3)
			w.start(nil, nil)
			for key, h := range w.allAnchored() {
				if len(h.failed) > 0 {
					t.Errorf("%s failed for nothing: %v", key, h.failed)
				}
			}
		})
	}
}

func TestBlockhashExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	// The transactions signed now are lost, and then expire.
	w.fault(localchain.Drop(1_000_000))
	keys := w.owners(3)
	w.start(nil, nil)
	w.await("three transactions recorded", func(all map[events.Owner]*history) bool {
		n := 0
		for _, h := range all {
			n += len(h.submitted)
		}
		return n == len(keys)
	})
	w.fault(localchain.Expire())
	w.fault(localchain.Drop(0))
	for key, h := range w.allAnchored() {
		if len(h.failed) == 0 || !strings.Contains(h.failed[0], "expired") {
			t.Errorf("%s: no batch failed because it expired: %v", key, h.failed)
		}
	}
}

func TestNodeIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	keys := w.owners(2)
	p := w.start(nil, nil)
	w.allAnchored()
	w.turns(p, nil)
	w.fault(localchain.Down(true))
	w.write(keys[0], 5) // writes continue
	w.turns(p, ErrNotReady)
	if _, err := w.client.GenesisHash(t.Context()); err == nil {
		t.Fatal("the node is up")
	}
	w.write(keys[0], 5)
	w.fault(localchain.Down(false))
	all := w.allAnchored()
	w.turns(p, nil)
	if h := all[keys[0]]; len(h.cut) > 3 {
		t.Errorf("%d batches were cut while nobody could take them", len(h.cut))
	}
}

func TestOutOfFundsAndFundedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	var err error
	w.authority, err = solana.NewRandomPrivateKey() // has no lamports
	w.must(err)
	w.owners(10)
	p := w.start(nil, nil)
	w.turns(p, errUnfunded)
	// Enough for some, then for all.
	w.must(w.chain.Fund(t.Context(), w.authority.PublicKey().String(), 8_000_000))
	w.await("some are anchored", func(all map[events.Owner]*history) bool {
		n := 0
		for _, h := range all {
			n += len(h.confirmed)
		}
		return n >= 2
	})
	w.turns(p, errUnfunded)
	w.must(w.chain.Fund(t.Context(), w.authority.PublicKey().String(), solana.LAMPORTS_PER_SOL))
	for key, h := range w.allAnchored() {
		if len(h.failed) > 0 {
			t.Errorf("%s: attempts were made that nobody could pay: %v", key, h.failed)
		}
	}
	w.turns(p, nil)
}

func TestSpendingBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	keys := w.owners(6)
	bound := func(lamports uint64) func(*Config) {
		return func(c *Config) { c.MaxLamportsPerDay = lamports }
	}
	first := w.start(nil, bound(5_000_000)) // rent alone is 1.8 million for each
	w.turns(first, errBound)
	first.stop()
	// The next anchorer knows how much was spent today, even if the tables were lost.
	for _, database := range []string{w.database, pgtest.Database(t)} {
		w.database = database
		next := w.start(nil, bound(5_000_000))
		w.turns(next, errBound)
		all := w.await("as many as the bound allows", func(all map[events.Owner]*history) bool {
			n := 0
			for _, h := range all {
				n += len(h.confirmed)
			}
			return n >= 2
		})
		if len(all) != 2 {
			t.Errorf("%d owners have batches", len(all))
		}
		next.stop()
	}
	var known uint64
	w.must(w.pool().QueryRow(t.Context(), `SELECT lamports FROM ledger_anchor.spending`).Scan(&known))
	balance, err := w.client.Balance(t.Context(), w.authority.PublicKey())
	w.must(err)
	if spent := 100*solana.LAMPORTS_PER_SOL - balance; known < spent {
		t.Errorf("%d lamports are known of %d", known, spent)
	}
	w.start(nil, bound(0))
	if all := w.allAnchored(); len(all) != len(keys) {
		t.Errorf("%d owners are anchored", len(all))
	}
}

// A first commit is expensive and a later one is cheap. New owners who can't be paid for
// wait. The owners behind them are anchored, even if the new ones would fill all the
// room.
func TestTheDearDoNotStopTheCheap(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	keys := w.owners(2)
	p := w.start(nil, func(c *Config) { c.MaxLamportsPerDay, c.MaxFlights = 5_000_000, 1 })
	w.allAnchored()
	dear := w.owners(packed + 1)
	w.turns(p, errBound)
	for range 2 {
		for _, key := range keys {
			w.write(key, 1)
		}
		all := w.allAnchored(dear...)
		for _, key := range dear {
			if h := all[key]; h != nil {
				t.Errorf("an owner who can't be paid for has batches: %v", h.cut)
			}
		}
	}
	w.turns(p, errBound)
}

// fundedChain is a chain on which the authority has a fixed balance.
type fundedChain struct {
	Chain
	balance uint64
}

func (p fundedChain) Balance(context.Context, solana.PublicKey) (uint64, error) {
	return p.balance, nil
}
func (p fundedChain) Rent(context.Context, int) (uint64, error) { return 0, nil }

func TestAffordable(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	d, dear, cheap := l.driver, l.dear, l.cheap
	a, b, c, e, f := l.owner(0, 1), l.owner(1, 2), l.owner(0, 1), l.owner(1, 2), l.owner(1, 2)
	lagging := l.owner(0, 1) // is not paid for, and no money is set aside for it
	l.cache.sizes[lagging.key] = 0
	all := []*owner{lagging, a, b, c, e, f}
	for _, test := range []struct {
		lamports uint64
		want     []*owner
	}{
		{0, nil},
		{cheap - 1, nil},
		{cheap, []*owner{b}},
		{3*cheap - 1, []*owner{b, e}},
		{dear - 1, []*owner{b, e, f}},
		{dear, []*owner{a}},
		{dear + 2*cheap, []*owner{a, b, e}},
		{2*dear + 3*cheap - 1, []*owner{a, b, c, e}},
		{2*dear + 3*cheap, all[1:]},
	} {
		for _, short := range []error{errUnfunded, errBound} {
			d.cfg.Chain, d.cfg.MaxLamportsPerDay = fundedChain{balance: test.lamports}, 0
			if short == errBound {
				if test.lamports == 0 {
					continue // a bound of 0 means no bound
				}
				d.cfg.Chain, d.cfg.MaxLamportsPerDay = fundedChain{balance: 1 << 40}, test.lamports
			}
			got, err := d.affordable(t.Context(), all)
			must(t, err)
			if !slices.Equal(got, test.want) {
				t.Errorf("%d lamports, %v: paid for %d owners, want %d", test.lamports, short, len(got), len(test.want))
			}
			if left := len(got) < len(all)-1; left != errors.Is(d.status.funds, short) || !left && d.status.funds != nil {
				t.Errorf("%d lamports: %d of %d paid for, funds are %v", test.lamports, len(got), len(all)-1, d.status.funds)
			}
		}
	}
}

func TestChainReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	keys := w.owners(2)
	p := w.start(nil, nil)
	before := w.allAnchored()
	w.fault(localchain.Reset())
	w.must(w.chain.Fund(t.Context(), w.authority.PublicKey().String(), solana.LAMPORTS_PER_SOL))
	w.write(keys[0], 3)
	w.turns(p, errReset)
	p.stop()
	// A restart does not make it forget either.
	p = w.start(nil, nil)
	w.turns(p, errReset)
	p.stop()
	after := w.await("nothing new", func(map[events.Owner]*history) bool { return true })
	for _, key := range keys {
		if after[key] != nil && len(after[key].cut) > len(before[key].cut) {
			t.Errorf("%s: a batch was cut for another chain", key)
		}
		if held := w.held(key); held != nil {
			t.Errorf("%s: the new chain holds %+v", key, held)
		}
	}
}

// TestALowerChain: the chain is exchanged before anything was anchored, by one that is
// far from the last block at which a transaction in flight could land.
func TestALowerChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	w.fault(localchain.Advance(2 * tooHigh))
	w.fault(localchain.Drop(1_000_000))
	key := w.owners(1)[0]
	w.start(nil, nil)
	w.await("in flight", func(all map[events.Owner]*history) bool { return all[key] != nil && len(all[key].submitted) == 1 })
	w.fault(localchain.Reset())
	w.fault(localchain.Drop(0))
	w.must(w.chain.Fund(t.Context(), w.authority.PublicKey().String(), solana.LAMPORTS_PER_SOL))
	w.await("anchored on the new chain", func(all map[events.Owner]*history) bool { return len(all[key].confirmed) == 1 })
}

// elsewhere is an endpoint that answers once from a different chain. It switches over
// after a transaction was sent and the right chain was checked. The other chain is far
// ahead, knows nothing of our transactions, and shows its genesis hash only when asked.
type elsewhere struct {
	Chain
	sent, away, back atomic.Bool
}

func (e *elsewhere) Send(ctx context.Context, raw []byte, preflight bool) error {
	defer e.sent.Store(true)
	return e.Chain.Send(ctx, raw, preflight)
}

func (e *elsewhere) FinalizedHeight(ctx context.Context) (chain.Height, error) {
	h, err := e.Chain.FinalizedHeight(ctx)
	if err == nil && e.sent.Load() && !e.back.Load() {
		e.away.Store(true)
		h.Block += 1_000_000
	}
	return h, err
}

func (e *elsewhere) Statuses(ctx context.Context, signatures []string, history bool) ([]*chain.Status, uint64, error) {
	if e.away.Load() {
		return make([]*chain.Status, len(signatures)), math.MaxInt64, nil
	}
	return e.Chain.Statuses(ctx, signatures, history)
}

func (e *elsewhere) Accounts(ctx context.Context, keys []solana.PublicKey, level chain.Commitment) ([]*chain.Account, uint64, error) {
	if e.away.Load() {
		return make([]*chain.Account, len(keys)), math.MaxInt64, nil
	}
	return e.Chain.Accounts(ctx, keys, level)
}

func (e *elsewhere) GenesisHash(ctx context.Context) (string, error) {
	if e.away.Swap(false) {
		e.back.Store(true)
		return solana.Hash{1}.String(), nil
	}
	return e.Chain.GenesisHash(ctx)
}

// A transaction is not given up because a different chain lacks it. The anchorer reads
// the genesis hash after all other reads, whether or not there is an anchor to compare
// with.
func TestAnotherChainInBetween(t *testing.T) {
	t.Parallel()
	for _, anchored := range []bool{false, true} {
		t.Run(fmt.Sprint("anchored ", anchored), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			keys := w.owners(1)
			if anchored {
				p := w.start(nil, nil)
				w.allAnchored()
				p.stop()
				w.write(keys[0], 1)
			}
			e := &elsewhere{}
			w.start(nil, func(c *Config) { e.Chain, c.Chain = c.Chain, e })
			all := w.allAnchored()
			if h := all[keys[0]]; len(h.failed) > 0 || !e.back.Load() {
				t.Errorf("given up: %q; another chain was asked: %v", h.failed, e.back.Load())
			}
		})
	}
}

// fork forces an account that makes one owner's commit fail: the program sees a fork.
func (w *world) fork(key events.Owner, size uint64) {
	w.t.Helper()
	owner := solana.PublicKey(key.Bytes())
	address, _, err := commitment.Address(program.LocalID, w.authority.PublicKey(), owner)
	w.must(err)
	data := commitment.Account{Authority: w.authority.PublicKey(), Owner: owner, Size: size, Root: [32]byte{1}, Slot: 1, Count: 1}.Encode()
	w.fault(localchain.SetAccount(address.String(), 2_000_000, program.LocalID.String(), data))
}

func TestOneBadInstruction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	keys := w.owners(8)
	bad := keys[3]
	w.fork(bad, 1)
	p := w.start(nil, nil)
	w.allAnchored(bad)
	w.turns(p, ErrNotReady)
	all := w.await("the bad one failed", func(all map[events.Owner]*history) bool {
		return all[bad] != nil && len(all[bad].failed) > 0
	})
	if h := all[bad]; len(h.confirmed) > 0 || !strings.Contains(h.failed[0], program.ErrForks.Error()) {
		t.Errorf("confirmed %v, failed %v", h.confirmed, h.failed)
	}
	if err := p.Ready(); !strings.Contains(err.Error(), string(bad)) {
		t.Errorf("readiness does not name the owner: %v", err)
	}
}

// The anchorer is killed while it gives up a refused pack.
func TestKilledWhileGivingUp(t *testing.T) {
	t.Parallel()
	for _, count := range []int32{1, 3} {
		for _, after := range []bool{false, true} {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, false)
				keys := w.owners(4)
				w.fork(keys[1], 1)
				first := w.start(&killer{point: "append BatchFailed", count: count, after: after}, nil)
				select {
				case <-first.ended:
				case <-time.After(patience):
					t.Fatal("nothing failed")
				}
				w.start(nil, nil)
				w.allAnchored(keys[1])
			})
		}
	}
}

// A transaction commits the batches of two owners. The anchorer is killed after it
// recorded the transaction for one owner. Before the next anchorer starts, a new batch is
// cut for the other owner. The transaction does not commit the new batch, so it must not
// be recorded for it.
func TestABatchIsCutAnewMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	keys := w.owners(2)
	waiting, pool := w.start(nil, func(c *Config) { c.MaxWait = time.Hour }), w.pool()
	eventually(t, "both are folded, to be in one transaction", func() bool {
		var n int
		_ = pool.QueryRow(t.Context(), `SELECT count(*) FROM ledger_anchor.owners`).Scan(&n)
		return n == len(keys)
	})
	waiting.stop()
	killed := w.start(&killer{point: "append BatchSubmitted", count: 2}, nil)
	select {
	case <-killed.ended:
	case <-time.After(patience):
		t.Fatal("nothing was recorded twice")
	}
	all := w.await("one of them is recorded", func(all map[events.Owner]*history) bool {
		return len(all) == 2 && len(all[keys[0]].submitted)+len(all[keys[1]].submitted) == 1
	})
	key := keys[0]
	if len(all[key].submitted) > 0 {
		key = keys[1]
	}
	w.write(key, 1)
	for i, data := range []events.Data{
		&events.BatchFailed{BatchID: all[key].open, Reason: "another anchorer's"},
		&events.BatchCut{BatchID: newID(), Size: 2, Root: tree.RootOf(w.leaves[key])},
	} {
		expected, err := w.log.OwnerHead(t.Context(), events.FamilyChain, key)
		w.must(err)
		command := newID()
		payload, err := events.EncodeBatch([]events.Event{{
			ID: newID(), Source: "/test", Owner: key, Time: events.At(time.Now()), OwnerVersion: all[key].versions + 1 + i, CommandID: command, Data: data,
		}})
		w.must(err)
		_, err = w.log.Append(t.Context(), eventlog.Append{
			Family: events.FamilyChain, Owner: key, Kind: events.KindBatch, CommandID: command, Expected: expected, Payload: payload,
		})
		w.must(err)
	}
	w.start(nil, nil)
	w.await("both are anchored", func(all map[events.Owner]*history) bool { // h.add checks each submission on the way
		for _, key := range keys {
			if h := all[key]; h == nil || len(h.confirmed) == 0 || h.confirmed[len(h.confirmed)-1].Size != uint64(len(w.leaves[key])) {
				return false
			}
		}
		return true
	})
}

func TestAccountAheadOfTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	keys := w.owners(2)
	w.fork(keys[0], 1000)
	p := w.start(nil, nil)
	w.allAnchored(keys[0])
	w.turns(p, program.ErrShrinks)
}

// forked is a chain whose accounts hold the committed number of leaves, but a different
// root.
type forked struct{ Chain }

func (c forked) Accounts(ctx context.Context, keys []solana.PublicKey, level chain.Commitment) ([]*chain.Account, uint64, error) {
	accounts, slot, err := c.Chain.Accounts(ctx, keys, level)
	for _, a := range accounts {
		if a == nil {
			continue
		}
		held, err := verify.DecodeAccount(a.Data)
		if err != nil {
			return nil, 0, err
		}
		held.Root[0]++
		a.Data = held.Encode()
	}
	return accounts, slot, err
}

// A batch is anchored only if the account holds its root. The same number of leaves is
// not enough: verifiers of a proof look for the root.
func TestAnotherRootIsNoAnchor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	key := w.owners(1)[0]
	p := w.start(nil, func(cfg *Config) { cfg.Chain = forked{cfg.Chain} })
	all := w.await("the batch ended", func(all map[events.Owner]*history) bool {
		return all[key] != nil && len(all[key].failed)+len(all[key].confirmed) > 0
	})
	if h := all[key]; len(h.confirmed) > 0 || !strings.Contains(h.failed[0], errFork.Error()) {
		t.Errorf("confirmed %v, failed %v", h.confirmed, h.failed)
	}
	w.turns(p, errFork)
}

func TestTreeCacheDisagrees(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	keys := w.owners(3)
	w.mu.Lock()
	w.bad[keys[0]] = true
	w.mu.Unlock()
	p := w.start(nil, nil)
	all := w.allAnchored(keys[0])
	w.turns(p, errDisagree)
	if h := all[keys[0]]; h != nil && len(h.cut) > 0 {
		t.Error("a batch was cut on a root that the tree cache does not have")
	}
}

// Two anchorers have a database each, so no lock keeps them apart.
func TestTwoAnchorers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	keys := w.owners(20)
	w.start(nil, nil)
	w.startOn(pgtest.Database(t), nil, nil)
	for range 10 {
		for _, key := range keys[:5] {
			w.write(key, 1)
		}
	}
	all := w.allAnchored()
	if len(all) != len(keys) {
		t.Errorf("%d owners are anchored", len(all))
	}
}

// Two anchorers share one database. One works; the other takes over when it stops.
func TestStandby(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	keys := w.owners(3)
	first := w.start(nil, nil)
	w.allAnchored()
	second := w.start(nil, nil)
	w.turns(second, nil)
	first.stop()
	w.write(keys[0], 2)
	w.allAnchored()
}

// The tables are a cache: if they are lost, the log restores everything.
func TestTablesComeBackFromTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	keys := w.owners(5)
	w.start(nil, nil).waitAnchored(w).stop()
	w.database = pgtest.Database(t)
	w.write(keys[2], 3)
	w.start(nil, func(c *Config) { c.CachedOwners = 2 })
	all := w.allAnchored()
	for _, key := range slices.Concat(keys[:2], keys[3:]) {
		if len(all[key].cut) != 1 {
			t.Errorf("%s: cut %d times", key, len(all[key].cut))
		}
	}
}

func (p *process) waitAnchored(w *world) *process {
	w.t.Helper()
	w.allAnchored()
	return p
}

// folded returns the newest position of the checkpoints in the database.
func (w *world) folded() (seq uint64) {
	w.t.Helper()
	w.must(w.pool().QueryRow(w.t.Context(), `SELECT max(seq) FROM ledger_anchor.checkpoint`).Scan(&seq))
	return seq
}

// While no anchorer runs, the log is replaced by a log that ends before their checkpoint.
// The anchorer that holds the partitions rebuilds their state once and skips nothing.
// TestAnotherLogThatIsLonger covers a log that has grown past the checkpoint.
func TestAnotherLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	said := newLines()
	start := func() *process { return w.start(nil, func(c *Config) { c.Logger = slog.New(said) }) }
	const rebuilt = "the state is rebuilt"
	w.owners(6)
	start().waitAnchored(w).stop()
	start().waitAnchored(w).stop()
	if n := len(said.of(slog.LevelError, rebuilt)); n != 0 {
		t.Fatalf("the same log was taken for another one %d times", n)
	}

	before := w.folded()
	w.otherLog()
	w.owners(2)
	if head, err := w.log.Head(t.Context()); err != nil || head >= before {
		t.Fatalf("the log ends at %d, %v; %d were folded", head, err, before)
	}
	p := start().waitAnchored(w)
	w.comes(p, false)
	w.comes(start(), true) // a standby changes nothing
	w.owners(1)
	w.allAnchored()
	p.stop()
	if n := len(said.of(slog.LevelError, rebuilt)); n != 1 {
		t.Errorf("%d lines say that the state is rebuilt, want 1", n)
	}
}

// The same with a log that has grown past the checkpoint.
func TestAnotherLogThatIsLonger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	said := newLines()
	start := func() *process { return w.start(nil, func(c *Config) { c.Logger = slog.New(said) }).waitAnchored(w) }
	w.owners(2)
	start().stop()
	before := w.folded()
	w.otherLog()
	w.owners(int(before) + 1)
	start()
	lines := said.of(slog.LevelError, "")
	if len(lines) != 1 || !strings.Contains(lines[0].Message, "the state is rebuilt") {
		t.Errorf("%v: want one line that says that the state is rebuilt", lines)
	}
}

// An anchorer that loses its turn no longer reports the state from before.
func TestLostTurnLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	bad := w.owners(1)[0]
	registry := prometheus.NewRegistry()
	// This bound pays for one first commit.
	p := w.start(nil, func(c *Config) { c.MaxLamportsPerDay, c.Registerer = 3_000_000, registry })
	w.allAnchored()
	w.mu.Lock()
	w.bad[bad] = true
	w.mu.Unlock()
	w.write(bad, 1)
	w.owners(2)
	w.turns(p, errBound)
	w.turns(p, errDisagree)
	w.gauges(registry, func(g map[string]float64) bool {
		return g["owners waiting"] > 0 && g["oldest_unanchored_seconds"] > 0 && g["ready"] == 0 && g["active"] == 1
	})
	conn, err := pgx.Connect(t.Context(), w.database)
	w.must(err)
	t.Cleanup(func() { schema.Disconnect(conn) })
	_, err = conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	w.must(err)
	_, err = conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, projector.AloneKey(schemaName)) // another anchorer
	w.must(err)
	w.comes(p, true)
	w.gauges(registry, func(g map[string]float64) bool {
		return g["owners waiting"] == 0 && g["oldest_unanchored_seconds"] == 0 && g["lag_messages"] == 0 && g["ready"] == 1 && g["active"] == 0
	})
	w.turns(p, nil)
}

// gauges waits until an anchorer's gauges are as wanted.
func (w *world) gauges(registry *prometheus.Registry, wanted func(map[string]float64) bool) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		families, err := registry.Gather()
		w.must(err)
		values := map[string]float64{}
		for _, f := range families {
			name := strings.TrimPrefix(f.GetName(), "ledger_anchor_")
			for _, m := range f.GetMetric() {
				for _, label := range m.GetLabel() {
					values[name+" "+label.GetValue()] = m.GetGauge().GetValue()
				}
				values[name] = m.GetGauge().GetValue()
			}
		}
		if wanted(values) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the gauges are %v", values)
		}
		eventlog.Pause(w.t.Context(), 5*time.Millisecond)
	}
}

// looks counts the reads of the genesis hash and of the balance.
type looks struct {
	Chain
	genesis, balance atomic.Int32
}

func (l *looks) GenesisHash(ctx context.Context) (string, error) {
	l.genesis.Add(1)
	return l.Chain.GenesisHash(ctx)
}

func (l *looks) Balance(ctx context.Context, key solana.PublicKey) (uint64, error) {
	l.balance.Add(1)
	return l.Chain.Balance(ctx, key)
}

// The anchorer logs one line per trouble, however often it repeats, and one when it ends.
func TestTroubleIsSaidOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	var err error
	w.authority, err = solana.NewRandomPrivateKey() // has no lamports
	w.must(err)
	keys := w.owners(2)
	said, seen := newLines(), &looks{}
	until := func(what string, done func() bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); !done(); eventlog.Pause(t.Context(), 5*time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s did not happen", what)
			}
		}
	}
	several := func(n *atomic.Int32) {
		t.Helper()
		before := n.Load()
		until("several looks", func() bool { return n.Load() > before+4 })
	}
	const noFunds, funded = "owners can't be paid for", "can be paid for again"
	const noChain, usable = "the chain can't be anchored on", "can be anchored on again"
	line := func(level slog.Level, text string) func() bool {
		return func() bool { return len(said.of(level, text)) > 0 }
	}
	p := w.start(nil, func(c *Config) {
		seen.Chain = c.Chain
		c.Chain, c.Logger = seen, slog.New(said)
	})
	until("a line about the funds", line(slog.LevelWarn, noFunds))
	several(&seen.balance)
	w.must(w.chain.Fund(t.Context(), w.authority.PublicKey().String(), solana.LAMPORTS_PER_SOL))
	w.allAnchored()
	until("a line that funds are there", line(slog.LevelInfo, funded))

	w.fault(localchain.Down(true))
	w.write(keys[0], 1)
	until("a line about the chain", line(slog.LevelWarn, noChain))
	several(&seen.genesis)
	w.fault(localchain.Down(false))
	until("a line that the chain is back", line(slog.LevelInfo, usable))
	w.allAnchored()

	w.fault(localchain.Reset())
	w.write(keys[0], 1)
	w.turns(p, errReset)
	several(&seen.genesis)
	for _, want := range []struct {
		level slog.Level
		text  string
		times int
	}{{slog.LevelWarn, noFunds, 1}, {slog.LevelInfo, funded, 1}, {slog.LevelWarn, noChain, 1}, {slog.LevelInfo, usable, 1},
		{slog.LevelError, "memories stay unanchored: " + errReset.Error() + ": its genesis hash is ", 1}} {
		if n := len(said.of(want.level, want.text)); n != want.times {
			t.Errorf("%q is said %d times, want %d", want.text, n, want.times)
		}
	}
}
