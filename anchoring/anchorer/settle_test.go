package anchorer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// estate is a chain on which the authority's own account needs a rent reserve.
type estate struct {
	fundedChain
	reserve uint64
}

func (e estate) Rent(context.Context, int) (uint64, error) { return e.reserve, nil }

// Transactions in flight are not paid yet, the reserve of the authority's own account
// must stay, and spending counts on the UTC day on which it happened.
func TestWhatIsLeftToSpend(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	l.now = time.Date(2026, 2, 28, 20, 0, 0, 0, time.FixedZone("", -5*3600)) // March 1 in UTC
	_, err := l.store.pool.Exec(t.Context(), `INSERT INTO ledger_anchor.spending (day, lamports) VALUES ('2026-02-28', 1), ('2026-03-01', 700000)`)
	must(t, err)
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
		l.cfg.Chain, l.cfg.MaxLamportsPerDay = estate{fundedChain{balance: c.balance}, reserve}, c.bound
		if left, short, err := l.budget(t.Context()); err != nil || left != c.left || short != c.short {
			t.Errorf("%d lamports, bound to %d: %d left, short is %v, %v", c.balance, c.bound, left, short, err)
		}
	}
}

// withLog gives a lone driver a log to append to.
func (l *lone) withLog() eventlog.Log {
	l.t.Helper()
	nc, err := nats.Connect(natstest.Start(l.t).URL())
	must(l.t, err)
	l.t.Cleanup(nc.Close)
	l.cfg.Log, err = eventlog.Create(l.t.Context(), nc, eventlog.Config{})
	must(l.t, err)
	l.cfg.NewID, l.cfg.Logger = newID, slog.New(slog.DiscardHandler)
	l.signer.program = program.LocalID
	l.flights, l.held = map[string]*flight{}, map[events.Owner]*hold{}
	l.metrics.events = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "events"}, []string{"type"})
	l.metrics.alarms = prometheus.NewCounter(prometheus.CounterOpts{})
	l.metrics.conflicts, l.metrics.spent, l.metrics.latency = prometheus.NewCounter(prometheus.CounterOpts{}), prometheus.NewCounter(prometheus.CounterOpts{}), prometheus.NewHistogram(prometheus.HistogramOpts{})
	return l.cfg.Log
}

// takeOff cuts batches for owners and puts their commits into flight.
func (l *lone) takeOff(owners ...*owner) *flight {
	l.t.Helper()
	ready, err := l.cut(l.t.Context(), owners)
	must(l.t, err)
	tx, err := l.signer.sign(ready, chain.Blockhash{Hash: solana.Hash{1}, LastValidBlockHeight: 100})
	must(l.t, err)
	f := &flight{attempt: tx}
	var records []record
	for _, o := range ready {
		records = append(records, record{o, submitted(o.batch, &f.attempt)})
	}
	l.flights[f.signature] = f
	must(l.t, l.register(l.t.Context(), f, records))
	return f
}

// another acts as another anchorer that gives up an owner's batch.
func (l *lone) another(o *owner) (seq uint64) {
	l.t.Helper()
	command := newID()
	payload, err := events.EncodeBatch([]events.Event{{
		ID: newID(), Source: "/test", Owner: o.key, Time: events.At(l.now), OwnerVersion: o.chainVersion + 1, CommandID: command,
		Data: &events.BatchFailed{BatchID: o.batch.id, Reason: "another anchorer's"},
	}})
	must(l.t, err)
	seq, err = l.cfg.Log.Append(l.t.Context(), eventlog.Append{
		Family: events.FamilyChain, Owner: o.key, Kind: events.KindBatch, CommandID: command, Expected: o.chainSeq, Payload: payload,
	})
	must(l.t, err)
	return seq
}

// Each owner in a transaction is settled by its own account. An owner whose account was
// not read yet stays in flight. A transaction counts as failed only when none of its
// owners is left in flight.
func TestEachOwnerLandsAlone(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	l.withLog()
	lost, late := l.owner(0, 2), l.owner(0, 3)
	f := l.takeOff(lost, late)
	must(t, l.settle(t.Context(), f, false, map[events.Owner]*commitment.Account{lost.key: nil}))
	if lost.batch != nil || late.batch == nil || !slices.Equal(f.owners, []*owner{late}) || l.flights[f.signature] != f || l.streak != 0 {
		t.Errorf("one is lost: %v, %v, %d in flight, %d in a row", lost.batch, late.batch, len(f.owners), l.streak)
	}
	l.streak = 3
	l.status.setFunds(errUnfunded)
	account := &commitment.Account{Size: 3, Root: [32]byte(late.batch.root)}
	must(t, l.settle(t.Context(), f, true, map[events.Owner]*commitment.Account{late.key: account}))
	if late.confirmedSize != 3 || len(l.flights) != 0 || l.streak != 0 || l.status.funds != nil {
		t.Errorf("the other has landed: %d leaves, %d flights, %d in a row, funds %v", late.confirmedSize, len(l.flights), l.streak, l.status.funds)
	}
	f = l.takeOff(lost)
	must(t, l.settle(t.Context(), f, false, map[events.Owner]*commitment.Account{lost.key: nil}))
	if len(l.flights) != 0 || l.streak != 1 {
		t.Errorf("all are lost: %d flights, %d in a row", len(l.flights), l.streak)
	}
}

// If another anchorer decided first for an owner, the owner leaves the flight. It is
// skipped until the fold has read that decision.
func TestWhoWasFaster(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	l.withLog()
	o := l.owner(0, 2)
	f := l.takeOff(o)
	seq := l.another(o)
	must(t, l.settle(t.Context(), f, false, map[events.Owner]*commitment.Account{o.key: nil}))
	if len(f.owners) != 0 || len(l.flights) != 0 || l.busy[o.key] != seq {
		t.Errorf("settled: %d in it, %d flights, busy until %d, want %d", len(f.owners), len(l.flights), l.busy[o.key], seq)
	}
	o = l.owner(0, 2)
	if _, err := l.cut(t.Context(), []*owner{o}); err != nil {
		t.Fatal(err)
	}
	seq = l.another(o)
	f = &flight{attempt: attempt{signature: "s", blockhash: solana.Hash{1}.String(), lastValid: 100, transaction: []byte{1}}}
	l.flights[f.signature] = f
	must(t, l.register(t.Context(), f, []record{{o, submitted(o.batch, &f.attempt)}}))
	if len(f.owners) != 0 || len(l.flights) != 0 || l.busy[o.key] != seq {
		t.Errorf("recorded: %d in it, %d flights, busy until %d, want %d", len(f.owners), len(l.flights), l.busy[o.key], seq)
	}
}

// Each repeated failure doubles the backoff, up to a bound. The owner is skipped
// meanwhile.
func TestHeldBackLongerEachTime(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	l.withLog()
	o := l.owners(1, 1)[0]
	l.now = l.now.Add(l.cfg.MaxWait)
	begun := l.now
	for _, want := range []time.Duration{10, 20, 40, 60, 60} {
		l.keepBack(o.key, hold{alarm: fmt.Errorf("%w: again", errFork), repeat: true}, 10*time.Second, time.Minute)
		for after, found := range map[time.Duration]int{want*time.Second - 1: 0, want * time.Second: 1} {
			l.now = begun.Add(after)
			if work, err := l.find(t.Context()); err != nil || len(work) != found {
				t.Errorf("held for %d s: %d found after %s, %v", want, len(work), after, err)
			}
		}
		l.now = begun
	}
	l.keepBack(o.key, hold{repeat: false}, time.Second, time.Minute)
	if until := l.held[o.key].until; until != begun.Add(time.Second) {
		t.Errorf("another trouble holds until %s", until.Sub(begun))
	}
}

// Another anchorer, with tables of its own, has anchored an owner who was held with an
// alarm. The alarm ends with the hold.
func TestAnAlarmEndsWithItsCause(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	l.withLog()
	o := l.owners(1, 1)[0]
	l.keepBack(o.key, hold{alarm: errFork, repeat: true}, 10*time.Second, time.Minute)
	l.now = l.now.Add(l.cfg.MaxWait)
	if l.turn(); l.status.alarm == nil {
		t.Error("the alarm has ended while the owner is not anchored")
	}
	o.confirmedSize, o.waiting = o.size(), time.Time{}
	l.save(o)
	if l.turn(); l.status.alarm != nil || len(l.held) != 0 {
		t.Errorf("the owner is anchored: %v", l.status.alarm)
	}
}

// Transactions that were in flight together fail of one cause: the rest is short. It ends
// at once when another one lands.
func TestOneCauseMakesOneRest(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	l.withLog()
	for range 20 {
		l.takeOff(l.owner(0, 2))
	}
	landing := l.takeOff(l.owner(0, 2))
	for _, f := range l.flights {
		if f != landing {
			must(t, l.settle(t.Context(), f, false, map[events.Owner]*commitment.Account{f.owners[0].key: nil}))
		}
	}
	if rest := l.resting.Sub(l.now); rest != 2*time.Second {
		t.Errorf("it rests for %s", rest)
	}
	b, key := landing.owners[0].batch, landing.owners[0].key
	must(t, l.settle(t.Context(), landing, true, map[events.Owner]*commitment.Account{key: {Size: b.size, Root: [32]byte(b.root)}}))
	if l.resting.After(l.now) {
		t.Error("it rests although a transaction has landed")
	}
}

// A transaction is refused because of one of its owners. The log says whose fault it was,
// and that owner's next commit goes alone in a transaction.
func TestWhoseFaultItWas(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	log := l.withLog()
	good, bad := l.owner(0, 2), l.owner(0, 2)
	f := l.takeOff(good, bad)
	i := slices.Index(f.owners, bad)
	f.refused = &program.InstructionError{Index: budgetInstructions + 1, Custom: true, Code: 6}
	if i != 1 {
		t.Fatalf("the bad one is in place %d", i)
	}
	must(t, l.giveUp(t.Context(), f))
	for o, want := range map[*owner]string{good: "packed with one that failed: " + f.refused.Error(), bad: f.refused.Error()} {
		r, found, err := log.OwnerNewest(t.Context(), events.FamilyChain, o.key, events.KindBatch)
		if err != nil || !found {
			t.Fatal(found, err)
		}
		batch, err := events.DecodeBatch(r.Payload)
		must(t, err)
		if failed, ok := batch[0].Data.(*events.BatchFailed); !ok || failed.Reason != want {
			t.Errorf("%+v, want %q", batch[0].Data, want)
		}
		if h := l.held[o.key]; (h != nil) != (o == bad) || h != nil && (!h.alone || h.alarm == nil) {
			t.Errorf("held: %+v", h)
		}
	}
	if len(l.flights) != 0 || l.streak != 1 {
		t.Errorf("%d flights, %d in a row", len(l.flights), l.streak)
	}
}
