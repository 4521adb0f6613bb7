package anchorer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
)

func (w *world) fault(f localchaintest.Fault) {
	w.t.Helper()
	w.must(w.chain.Fault(w.t.Context(), f))
}

// turns waits until a process reports the wanted readiness.
func (w *world) turns(p *process, what error) {
	w.t.Helper()
	testkit.Await(w.t, fmt.Sprintf("readiness is %v", what), func() bool { return errors.Is(p.Ready(), what) })
}

// The network loses or delays transactions and answers.
func TestLostOnTheWay(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string][]localchaintest.Fault{
		"transactions lost": {localchaintest.Drop(3)},
		"lost or late": {
			localchaintest.LoseReply("sendTransaction", 2), localchaintest.LoseReply("getSignatureStatuses", 2),
			localchaintest.LoseReply("getMultipleAccounts", 2), localchaintest.LoseReply("getGenesisHash", 3), localchaintest.Lag(60),
		},
		"refused": {localchaintest.Fail("sendTransaction", 2), localchaintest.Fail("getSignatureStatuses", 1), localchaintest.Fail("getMultipleAccounts", 1)},
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
	// All transactions are lost, and then expire. Then a single one is tried at a time.
	w.fault(localchaintest.Drop(1_000_000))
	w.owners(3 * packed)
	p := w.start(nil, nil)
	testkit.Await(t, "it says that all expire", func() bool {
		w.fault(localchaintest.Expire())
		return errors.Is(p.Ready(), errStalled)
	})
	expire := func(all map[events.Owner]*history) (tried int, failed bool) {
		w.fault(localchaintest.Expire())
		for _, h := range all {
			failed = failed || len(h.failed) > 2
			if len(h.submitted) > 2 {
				tried++
			}
		}
		return tried, failed
	}
	w.await("one more expired", func(all map[events.Owner]*history) bool {
		tried, failed := expire(all)
		if failed && tried > packed {
			t.Errorf("%d owners were tried after it stalled", tried)
		}
		return failed
	})
	w.fault(localchaintest.Drop(0))
	for key, h := range w.allAnchored() {
		if len(h.failed) == 0 || !strings.Contains(h.failed[0], "expired") {
			t.Errorf("%s: no batch failed because it expired: %v", key, h.failed)
		}
	}
	w.turns(p, nil)
}

func TestOutOfFundsAndFundedLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.authority = solana.NewWallet().PrivateKey // has no lamports
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

// fundedChain is a chain on which the authority has a fixed balance, of which its own account
// needs a reserve.
type fundedChain struct {
	Chain
	balance, reserve uint64
}

func (p fundedChain) Balance(context.Context, solana.PublicKey) (uint64, error) {
	return p.balance, nil
}
func (p fundedChain) Rent(context.Context, int) (uint64, error) { return p.reserve, nil }

func TestChainReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	keys := w.owners(2)
	p := w.start(nil, nil)
	before := w.allAnchored()
	w.fault(localchaintest.Reset())
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

// fork forces an account that makes one owner's commit fail: the program sees a fork.
func (w *world) fork(key events.Owner, size uint64) {
	w.t.Helper()
	owner := solana.PublicKey(key.Bytes())
	address, _ := commitment.Address(program.LocalID, w.authority.PublicKey(), owner)
	data := commitment.Account{Authority: w.authority.PublicKey(), Owner: owner, Size: size, Root: [32]byte{1}, Slot: 1, Count: 1}.Encode()
	w.fault(localchaintest.SetAccount(address.String(), 2_000_000, program.LocalID.String(), data))
}

func TestOneBadInstruction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	keys := w.owners(8)
	bad := keys[3]
	w.fork(bad, 1)
	var late atomic.Int64
	p := w.start(nil, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) } })
	w.allAnchored(bad)
	w.turns(p, ErrNotReady)
	if err := p.Ready(); !strings.Contains(err.Error(), string(bad)) {
		t.Errorf("readiness does not name the owner: %v", err)
	}
	for times := range 10 { // all would rest for ever longer after each
		late.Add(int64(time.Hour))
		all := w.await("the bad one failed", func(all map[events.Owner]*history) bool {
			return all[bad] != nil && len(all[bad].failed) > times
		})
		if h := all[bad]; len(h.confirmed) > 0 || !strings.Contains(h.failed[times], program.ErrForks.Error()) {
			t.Errorf("confirmed %v, failed %v", h.confirmed, h.failed)
		}
	}
	gone := w.owners(1)[0]
	w.allAnchored(bad)

	// A chain that was put back to an earlier state lacks the account of a later commit.
	address, _ := commitment.Address(program.LocalID, w.authority.PublicKey(), solana.PublicKey(gone.Bytes()))
	w.fault(localchaintest.SetAccount(address.String(), 0, solana.SystemProgramID.String(), nil))
	w.write(gone, 1)
	w.await("its commit failed", func(all map[events.Owner]*history) bool { return all[gone] != nil && len(all[gone].failed) > 0 })
	late.Add(int64(time.Hour))
	w.anchors(gone, 2)
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
	testkit.Await(t, "both are folded, to be in one transaction", func() bool {
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
		&events.BatchCut{BatchID: newID(), Size: 2, Root: rootOf(w.leaves[key])},
	} {
		expected, err := w.log.OwnerHead(t.Context(), events.FamilyChain, key)
		w.must(err)
		command := newID()
		payload, err := events.EncodeBatch([]events.Event{{
			ID: newID(), Source: "/test", Owner: key, Time: events.At(time.Now()), OwnerVersion: all[key].versions + 1 + i, CommandID: command, Data: data,
		}})
		w.must(err)
		w.must(errorOf(w.log.Append(t.Context(), eventlog.Append{
			Family: events.FamilyChain, Owner: key, Kind: events.KindBatch, CommandID: command, Expected: expected, Payload: payload,
		})))
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

// The tables are a cache: if they are lost, or their rows, the log restores everything. A lost
// row has no wrong code, but the owner's next message contradicts it.
func TestTablesComeBackFromTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	keys := w.owners(5)
	for _, lose := range []func(){
		func() { w.database = pgtest.Database(t) },
		func() { w.must(errorOf(w.pool().Exec(t.Context(), `DELETE FROM ledger_anchor.owners`))) },
	} {
		w.start(nil, nil).waitAnchored(w).stop()
		lose()
		w.write(keys[2], 3)
		p := w.start(nil, nil)
		all := w.allAnchored()
		for _, key := range slices.Concat(keys[:2], keys[3:]) {
			if len(all[key].cut) != 1 {
				t.Errorf("%s: cut %d times", key, len(all[key].cut))
			}
		}
		p.stop()
	}
	a, found := Anchorer{}, &contradiction{7, errLog}
	if !a.refutes(found) || a.refutes(found) || !a.refutes(&contradiction{9, errLog}) {
		t.Error("the same message must renew the tables once, and another one again")
	}
}

// Another authority and another program have accounts of their own. The log's earlier anchors
// are in others.
func TestAnotherAuthorityOrProgram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	key := w.owners(1)[0]
	p := w.start(nil, nil).waitAnchored(w)
	for size, change := range []func(){
		func() { w.authority = newWorld(t, false).authority },
		func() { w.program = otherProgram },
	} {
		p.stop()
		change()
		w.write(key, 1)
		p = w.start(nil, nil)
		w.anchors(key, size+2)
	}
}

func (p *process) waitAnchored(w *world) *process {
	w.t.Helper()
	w.allAnchored()
	return p
}

// folded returns the position of the checkpoint in the database.
func (w *world) folded() (seq uint64) {
	w.t.Helper()
	w.must(w.pool().QueryRow(w.t.Context(), `SELECT seq FROM ledger_anchor.checkpoint`).Scan(&seq))
	return seq
}

// While no anchorer runs, the log is replaced by one that ends before the checkpoint.
// The anchorer that works next rebuilds its state once and skips nothing.
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

// countedChain counts the steps of an anchorer that is not settling a batch: each asks for
// the genesis hash once.
type countedChain struct {
	Chain
	steps atomic.Int32
}

func (c *countedChain) GenesisHash(ctx context.Context) (string, error) {
	c.steps.Add(1)
	return c.Chain.GenesisHash(ctx)
}

// While a batch is in flight, other owners' writes do not poll the chain: endpoints limit
// the rate of requests.
func TestWritesDoNotPollTheChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	counted, pool := &countedChain{Chain: w.client}, w.pool()
	key := w.owners(1)[0]
	w.start(nil, func(c *Config) { c.Chain, c.PollEvery = counted, time.Hour })
	w.await("a batch is in flight", func(all map[events.Owner]*history) bool { return all[key] != nil && len(all[key].submitted) > 0 })
	for range 10 {
		other := w.owners(1)[0]
		testkit.Await(t, "the leaf is folded", func() (folded bool) {
			w.must(pool.QueryRow(t.Context(), `SELECT seq >= $1 FROM ledger_anchor.checkpoint`, w.seqs[other]).Scan(&folded))
			return folded
		})
	}
	if n := counted.steps.Load(); n != 1 {
		t.Errorf("the chain was asked in %d steps, want 1", n)
	}
}

// An anchorer that lags behind the log does not know which leaves wait, so neither its
// metrics nor its driver notice.
func TestLaggingIsNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.owners(1)
	p := w.start(nil, func(c *Config) { c.readyLag = time.Nanosecond }).waitAnchored(w)
	w.turns(p, nil)
	held, err := w.pool().Begin(t.Context())
	w.must(err)
	w.must(errorOf(held.Exec(t.Context(), `LOCK TABLE ledger_anchor.owners IN EXCLUSIVE MODE`)))
	w.owners(1)
	testkit.Await(t, "it is behind the log", func() bool { return strings.Contains(fmt.Sprint(p.Ready()), "behind the log") })
	w.must(held.Rollback(t.Context()))
	w.turns(p, nil)
}
