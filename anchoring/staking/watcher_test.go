package staking_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/staking"
	"github.com/memory-ledger/ledger/anchoring/staking/lots"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// ledger is a log of one owner's chain family, in memory.
type ledger struct {
	mu      sync.Mutex
	records []eventlog.Record
}

func (l *ledger) Append(_ context.Context, a eventlog.Append) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Expected != uint64(len(l.records)) {
		return 0, eventlog.ErrConflict
	}
	l.records = append(l.records, eventlog.Record{Seq: a.Expected + 1, CommandID: a.CommandID, Payload: a.Payload})
	return a.Expected + 1, nil
}

func (l *ledger) OwnerNewest(context.Context, events.Family, events.Owner, events.SubjectKind) (r eventlog.Record, found bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := len(l.records); n > 0 {
		return l.records[n-1], true, nil
	}
	return r, false, nil
}

func (l *ledger) OwnerTail(_ context.Context, _ events.Family, _ events.Owner, after uint64, yield func(eventlog.Record) error) error {
	l.mu.Lock()
	tail := slices.Clone(l.records[min(after, uint64(len(l.records))):])
	l.mu.Unlock()
	for _, r := range tail {
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

// behind is a read model that has nothing yet.
type behind struct{}

func (behind) Load(context.Context, events.Owner, string) (staking.Record, error) {
	return staking.Record{}, nil
}

func (behind) Owners(_ context.Context, after events.Owner, _ int) ([]events.Owner, error) {
	if after == "" {
		return []events.Owner{owner}, nil
	}
	return nil, nil
}

// moody is a node whose vault has received deposits of 1, 2, 3…. Sometimes it fails or is
// late, and it lists some transactions twice.
type moody struct {
	vault string
	total int
	seen  atomic.Int64 // how many deposits it shows
	calm  atomic.Bool
}

func (m *moody) signature(i int) string {
	return solana.Signature{0: 1, 62: byte(i >> 8), 63: byte(i)}.String()
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Method string
		Params []any
	}
	_ = json.NewDecoder(r.Body).Decode(&call)
	moody := !m.calm.Load()
	if moody && rand.IntN(8) == 0 {
		panic(http.ErrAbortHandler)
	}
	var result any
	switch call.Method {
	case "getSignaturesForAddress":
		last := int(m.seen.Load())
		if moody {
			last = rand.IntN(last + 1)
		}
		list := []any{}
		for i := last; i > 0; i-- {
			entry := map[string]any{"signature": m.signature(i), "slot": i, "err": nil}
			if list = append(list, entry); moody && rand.IntN(3) == 0 {
				list = append(list, entry)
			}
		}
		result = list
	case "getTransaction":
		text, _ := call.Params[0].(string)
		raw := solana.MustSignatureFromBase58(text)
		i := int(raw[62])<<8 | int(raw[63])
		balance := func(n int) any {
			return []any{map[string]any{"accountIndex": 0, "mint": mintID.String(), "uiTokenAmount": map[string]any{"amount": strconv.Itoa(n)}}}
		}
		result = map[string]any{
			"slot": i, "blockTime": 1000 + i, "transaction": map[string]any{"message": map[string]any{"accountKeys": []string{m.vault}}},
			"meta": map[string]any{"err": nil, "preTokenBalances": balance(i * (i - 1) / 2), "postTokenBalances": balance(i * (i + 1) / 2)},
		}
	case "getMultipleAccounts":
		result = map[string]any{"context": map[string]any{"slot": 1}, "value": []any{map[string]any{"owner": solana.TokenProgramID, "lamports": 1, "data": []string{"", "base64"}}}}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "result": result})
}

var ids atomic.Int64

func newWatcher(c *staking.Chain, store staking.Store, log *ledger) *staking.Watcher {
	return staking.NewWatcher(staking.WatcherConfig{
		Chain: c, Store: store, Log: log, Source: "/anchorer", Now: time.Now, Sweep: 5 * time.Millisecond,
		NewID: func() string { return fmt.Sprint(ids.Add(1)) }, Logger: slog.New(slog.DiscardHandler),
	})
}

// TestWatchersRecordEachMovementOnce lets three watchers look at one vault at the same
// time. Their node is late, omits transactions and repeats others. Another writer uses
// the owner's family too.
func TestWatchersRecordEachMovementOnce(t *testing.T) {
	t.Parallel()
	const total = 100
	node := &moody{total: total}
	node.vault = mustVault(t)
	c := onchain(t, node)
	log := &ledger{}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 3 {
		w := newWatcher(c, behind{}, log)
		group.Go(func() { w.Run(ctx) })
	}
	for i := range total {
		node.seen.Store(int64(i + 1))
		if i%10 == 0 {
			foreign(t, log)
		}
		time.Sleep(2 * time.Millisecond)
	}
	cancel()
	group.Wait()
	node.calm.Store(true)
	for range 3 { // more than one message may be left
		must(t, newWatcher(c, behind{}, log).Look(t.Context(), owner))
	}
	recordedOnce(t, log, total)
}

// told is a read model with a preset record of the owner.
type told struct {
	behind
	staking.Record
}

func (m told) Load(context.Context, events.Owner, string) (staking.Record, error) {
	return m.Record, nil
}

// TestAnAlteredReadModelRecordsNothing: if the read model has a wrong version or
// sequence, nothing is appended. The log would keep it forever.
func TestAnAlteredReadModelRecordsNothing(t *testing.T) {
	t.Parallel()
	node := &moody{total: 1}
	node.calm.Store(true)
	node.seen.Store(1)
	node.vault = mustVault(t)
	c := onchain(t, node)
	for name, r := range map[string]staking.Record{
		"a lower version":  {Seq: 2, Version: 1},
		"a higher version": {Seq: 2, Version: 7},
		"a later sequence": {Seq: 9, Version: 2},
	} {
		log := &ledger{}
		foreign(t, log)
		foreign(t, log)
		if err := newWatcher(c, told{Record: r}, log).Look(t.Context(), owner); !errors.Is(err, eventlog.ErrContradiction) || len(log.records) != 2 {
			t.Errorf("%s: %v, %d messages", name, err, len(log.records))
		}
	}
}

// foreign appends one of the anchorer's messages, as another writer would.
func foreign(t *testing.T, log *ledger) {
	t.Helper()
	log.mu.Lock()
	defer log.mu.Unlock()
	seq := len(log.records) + 1
	payload, err := events.EncodeBatch([]events.Event{{
		ID: "x", Source: "/anchorer", Owner: owner, Time: events.At(time.Now()), OwnerVersion: seq, CommandID: "x",
		Data: &events.BatchFailed{BatchID: "b", Reason: "r"},
	}})
	must(t, err)
	log.records = append(log.records, eventlog.Record{Seq: uint64(seq), Payload: payload})
}

func recordedOnce(t *testing.T, log *ledger, total int) {
	t.Helper()
	seen := map[string]string{}
	for i, r := range log.records {
		batch, err := events.DecodeBatch(r.Payload)
		must(t, err)
		if batch[0].OwnerVersion != i+1 {
			t.Errorf("message %d has version %d", i+1, batch[0].OwnerVersion)
		}
		for _, e := range batch {
			data, ok := e.Data.(*events.StakeDeposited)
			if !ok {
				continue
			}
			if _, again := seen[data.Signature]; again || data.Amount != fmt.Sprint(data.Slot) {
				t.Errorf("recorded twice, or wrong: %+v", data)
			}
			seen[data.Signature] = data.Amount
		}
	}
	if len(seen) != total {
		t.Errorf("%d of %d deposits recorded in %d messages", len(seen), total, len(log.records))
	}
}

// TestWhatTheReadModelKnowsIsNotRecordedAgain: this also holds for nodes that list the
// transactions that they were asked to omit.
func TestWhatTheReadModelKnowsIsNotRecordedAgain(t *testing.T) {
	t.Parallel()
	vault := onchain(t, node{}).VaultOf(owner)
	signature := solana.Signature{1}.String()
	c := onchain(t, node{
		"getSignaturesForAddress": fmt.Sprintf(`[{"signature":%q,"slot":5,"err":null}]`, signature),
		"getTransaction": fmt.Sprintf(`{"slot":5,"blockTime":100,"transaction":{"message":{"accountKeys":[%q]}},"meta":{"err":null,"preTokenBalances":[],
			"postTokenBalances":[{"accountIndex":0,"mint":%q,"uiTokenAmount":{"amount":"7"}}],"loadedAddresses":{"writable":[],"readonly":[]}}}`, vault, mintID),
	})
	for want, movements := range [][]lots.Movement{{{Signature: signature, Slot: 5, Deposit: true, Amount: 7}}, nil} {
		log := &ledger{}
		must(t, newWatcher(c, told{Record: staking.Record{Movements: movements}}, log).Look(t.Context(), owner))
		if len(log.records) != want {
			t.Errorf("of a read model with %d movements: %d messages are recorded, want %d", len(movements), len(log.records), want)
		}
	}
}

// final is a node that has two transactions. Only the older one is final.
type final struct {
	vault  string
	signed [2]string // older one first
}

func (f final) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var call struct {
		Method string
		Params []any
	}
	_ = json.NewDecoder(r.Body).Decode(&call)
	options, _ := call.Params[1].(map[string]any)
	there := f.signed[:]
	if options["commitment"] == string(chain.Finalized) {
		there = there[:1]
	}
	var result any // null: no such transaction
	if call.Method == "getSignaturesForAddress" {
		list := []any{}
		for _, signature := range slices.Backward(there) {
			list = append(list, map[string]any{"signature": signature, "slot": 5, "err": nil})
		}
		result = list
	} else if slices.Contains(there, call.Params[0].(string)) {
		result = map[string]any{
			"slot": 5, "blockTime": 100, "transaction": map[string]any{"message": map[string]any{"accountKeys": []string{f.vault}}},
			"meta": map[string]any{"err": nil, "preTokenBalances": []any{}, "postTokenBalances": []any{
				map[string]any{"accountIndex": 0, "mint": mintID.String(), "uiTokenAmount": map[string]any{"amount": "7"}}}},
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "result": result})
}

// TestOnlyWhatIsFinalIsRecorded: the log would keep a movement forever that another fork
// of the chain might never have.
func TestOnlyWhatIsFinalIsRecorded(t *testing.T) {
	t.Parallel()
	is := final{mustVault(t), [2]string{solana.Signature{1}.String(), solana.Signature{2}.String()}}
	log := &ledger{}
	must(t, newWatcher(onchain(t, is), behind{}, log).Look(t.Context(), owner))
	if len(log.records) != 1 {
		t.Fatalf("%d messages", len(log.records))
	}
	batch, err := events.DecodeBatch(log.records[0].Payload)
	must(t, err)
	if data, ok := batch[0].Data.(*events.StakeDeposited); !ok || len(batch) != 1 || data.Signature != is.signed[0] {
		t.Errorf("recorded: %+v", batch)
	}
}
