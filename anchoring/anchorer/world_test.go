package anchorer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/infra/localchain"
	"github.com/memory-ledger/ledger/infra/localchain/localchaintest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/projections/tree"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// patience is how long a test waits for an expected event.
const patience = 30 * time.Second

// shared is a chain for the tests that do nothing to the chain itself: each has its own
// authority. It runs while a test uses it.
var shared struct {
	sync.Mutex
	users int
	chain *localchain.Chain
	dir   string
}

func sharedChain(t testing.TB) *localchain.Chain {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.users == 0 {
		dir, err := os.MkdirTemp("", "anchorer-test-")
		must(t, err)
		c, err := localchaintest.Run(localchain.Config{DataDir: dir, Programs: programs})
		if err != nil {
			os.RemoveAll(dir)
		}
		must(t, err)
		shared.chain, shared.dir = c, dir
	}
	shared.users++
	t.Cleanup(releaseChain)
	return shared.chain
}

func releaseChain() {
	shared.Lock()
	defer shared.Unlock()
	if shared.users--; shared.users == 0 {
		shared.chain.Kill()
		os.RemoveAll(shared.dir)
	}
}

var (
	otherProgram = solana.NewWallet().PublicKey()
	programs     = []localchain.Program{{ID: program.LocalID.String(), ELF: program.ELF}, {ID: otherProgram.String(), ELF: program.ELF}}
)

// world is a log with leaves, a database, and a chain.
type world struct {
	t         testing.TB
	stream    *eventlog.JetStream
	log       eventlog.Log // the stream, unless a test decorates it
	chain     *localchain.Chain
	client    *chain.Client
	authority solana.PrivateKey
	program   solana.PublicKey
	database  string

	mu     sync.Mutex
	leaves map[events.Owner][]events.Hash
	seqs   map[events.Owner]uint64
	bad    map[events.Owner]bool // the tree cache returns false roots for them
	slow   map[events.Owner]bool // the tree cache has none of their leaves yet
}

// newWorld uses the shared chain or, if own is true, a chain of the test's own.
func newWorld(t testing.TB, own bool) *world {
	t.Helper()
	w := &world{t: t, program: program.LocalID, leaves: map[events.Owner][]events.Hash{}, seqs: map[events.Owner]uint64{}, bad: map[events.Owner]bool{}, slow: map[events.Owner]bool{}}
	if own {
		w.chain = localchaintest.Start(t, localchain.Config{Programs: programs})
	} else {
		w.chain = sharedChain(t)
	}
	w.authority = solana.NewWallet().PrivateKey
	w.must(w.chain.Fund(t.Context(), w.authority.PublicKey().String(), 100*solana.LAMPORTS_PER_SOL))
	var err error
	w.client, err = chain.New(w.chain.URL())
	w.must(err)
	t.Cleanup(w.client.Close)
	w.otherLog()
	w.database = pgtest.Database(t)
	return w
}

// otherLog replaces the log with an empty one. Anchorers that already run keep the old
// one.
func (w *world) otherLog() {
	w.t.Helper()
	nc, _ := natstest.Connect(w.t, natstest.Start(w.t).URL(), nats.MaxReconnects(-1))
	natstest.Log(w.t, nc)
	var err error
	w.stream, err = eventlog.Open(w.t.Context(), nc)
	w.log = w.stream
	w.must(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.leaves)
	clear(w.seqs)
}

// lines is a slog handler that keeps the records.
type lines struct {
	slog.Handler
	mu   sync.Mutex
	kept []slog.Record
}

func newLines() *lines { return &lines{Handler: slog.NewTextHandler(io.Discard, nil)} }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, r)
	return nil
}

// of returns the lines of a level whose message contains a text.
func (l *lines) of(level slog.Level, text string) (found []slog.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.kept {
		if r.Level == level && strings.Contains(r.Message, text) {
			found = append(found, r)
		}
	}
	return found
}

// pool returns the test's own connections to the anchorers' database.
func (w *world) pool() *pgxpool.Pool {
	w.t.Helper()
	pool, err := schema.OpenPool(w.t.Context(), w.database, "ledger", 2)
	w.must(err)
	w.t.Cleanup(pool.Close)
	return pool
}

func (w *world) must(err error) {
	w.t.Helper()
	must(w.t, err)
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// write adds leaves to an owner's log.
func (w *world) write(key events.Owner, n int) {
	w.t.Helper()
	for range n {
		w.mu.Lock()
		index := len(w.leaves[key])
		w.mu.Unlock()
		w.writeLeaf(key, sha256.Sum256(fmt.Appendf(nil, "%s %d", key, index)))
	}
}

// writeLeaf adds one leaf.
func (w *world) writeLeaf(key events.Owner, leaf events.Hash) {
	w.t.Helper()
	w.mu.Lock()
	index, expected := len(w.leaves[key]), w.seqs[key]
	w.leaves[key] = append(w.leaves[key], leaf)
	w.mu.Unlock()
	command := newID()
	payload, err := events.EncodeBatch([]events.Event{{
		ID: newID(), Source: "/test", Owner: key, Time: events.At(time.Now()), OwnerVersion: index + 1, CommandID: command,
		Data: &events.MemoryWritten{MemoryID: newID(), LeafIndex: uint64(index), LeafHash: leaf, LeafVersion: 1, Metadata: []byte("{}"), Sealed: []byte{1}},
	}})
	w.must(err)
	seq, err := w.log.Append(w.t.Context(), eventlog.Append{
		Family: events.FamilyLedger, Owner: key, Kind: events.KindMemory, CommandID: command, Expected: expected, Payload: payload,
	})
	w.must(err)
	w.mu.Lock()
	w.seqs[key] = seq
	w.mu.Unlock()
}

// owners makes owners with a leaf each.
func (w *world) owners(n int) []events.Owner {
	w.t.Helper()
	keys := make([]events.Owner, n)
	for i := range keys {
		keys[i] = logtest.Owner()
		w.write(keys[i], 1)
	}
	return keys
}

// link makes the world a tree cache.
func (w *world) link(_ context.Context, key events.Owner, from, to uint64) (tree.Link, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if to > uint64(len(w.leaves[key])) || w.slow[key] {
		return tree.Link{}, tree.ErrIncomplete
	}
	t := treeOf(w.leaves[key][:to])
	path, err := t.ConsistencyProof(from, to)
	link := tree.Link{ToRoot: events.Hash(t.Hash())}
	for _, hash := range path {
		link.Path = append(link.Path, events.Hash(hash))
	}
	if w.bad[key] {
		link.ToRoot = events.Hash{1}
	}
	return link, err
}

func treeOf(leaves []events.Hash) *testonly.Tree {
	t := testonly.New(rfc6962.DefaultHasher)
	for _, leaf := range leaves {
		t.Append(leaf[:])
	}
	return t
}

func rootOf(leaves []events.Hash) events.Hash { return events.Hash(treeOf(leaves).Hash()) }

// process is an anchorer that can be killed. After that, it has no effect outside the
// process.
type process struct {
	*Anchorer
	kill  context.CancelFunc
	ended chan struct{}
	*killer
}

// start runs an anchorer with its own connections.
func (w *world) start(k *killer, change func(*Config)) *process {
	w.t.Helper()
	if k == nil {
		k = &killer{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	pool, err := schema.OpenPool(ctx, w.database, "ledger", 4)
	w.must(err)
	cfg := Config{
		Pool: pool, Log: killableLog{w.log, k}, Chain: killableChain{w.client, k}, Tree: w.link,
		Authority: w.authority, Program: w.program, MaxWait: time.Millisecond, MaxLeaves: 1000,
		PollEvery: 20 * time.Millisecond, ResendEvery: 60 * time.Millisecond,
		Now: time.Now, NewID: newID, Logger: slog.New(slog.DiscardHandler),
		around: func(committed bool) error {
			if committed != k.after {
				return nil
			}
			return k.at("checkpoint", func() error { return nil })
		},
	}
	if change != nil {
		change(&cfg)
	}
	p := &process{Anchorer: New(cfg), kill: cancel, ended: make(chan struct{}), killer: k}
	go func() {
		defer close(p.ended)
		defer pool.Close()
		_ = p.Run(ctx)
	}()
	w.t.Cleanup(p.stop)
	return p
}

func (p *process) stop() {
	p.kill()
	<-p.ended
}

// errDead is the answer to every call of a killed process.
var errDead = errors.New("killed")

// killer kills a process when it reaches a point for the count-th time: before the action
// or, with after, after it with the answer lost.
type killer struct {
	point  string
	count  int32
	after  bool
	seen   atomic.Int32
	dead   atomic.Bool
	cancel context.CancelFunc
}

func (k *killer) at(point string, do func() error) error {
	if k.dead.Load() {
		return errDead
	}
	if point != k.point || k.seen.Add(1) != k.count {
		return do()
	}
	if k.after {
		_ = do()
	}
	k.dead.Store(true)
	k.cancel()
	return errDead
}

type killableLog struct {
	eventlog.Log
	k *killer
}

func (l killableLog) Append(ctx context.Context, a eventlog.Append) (seq uint64, err error) {
	batch, err := events.DecodeBatch(a.Payload)
	if err != nil {
		return 0, err
	}
	err = l.k.at("append "+string(batch[0].Type()), func() (err error) {
		// An append that has begun is not undone by the kill.
		seq, err = l.Log.Append(context.WithoutCancel(ctx), a)
		return err
	})
	return seq, err
}

type killableChain struct {
	Chain
	k *killer
}

func (c killableChain) Send(ctx context.Context, raw []byte, preflight bool) error {
	return c.k.at("send", func() error { return c.Chain.Send(ctx, raw, preflight) })
}

func (c killableChain) Statuses(ctx context.Context, signatures []string, history bool) (s []*chain.Status, slot uint64, err error) {
	if len(signatures) == 0 {
		return nil, 0, nil
	}
	err = c.k.at("status", func() (err error) {
		s, slot, err = c.Chain.Statuses(ctx, signatures, history)
		return err
	})
	return s, slot, err
}

func (c killableChain) Accounts(ctx context.Context, keys []solana.PublicKey, level chain.Commitment) (a []*chain.Account, slot uint64, err error) {
	err = c.k.at("account", func() (err error) {
		a, slot, err = c.Chain.Accounts(ctx, keys, level)
		return err
	})
	return a, slot, err
}

// history is the log's record of one owner's batches.
type history struct {
	cut, failed []string
	confirmed   []events.BatchConfirmed
	submitted   map[string]*events.BatchSubmitted
	open        string
	versions    int
}

// await follows the log until a condition on the histories holds.
func (w *world) await(what string, until func(map[events.Owner]*history) bool) map[events.Owner]*history {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	done := errors.New("done")
	all := map[events.Owner]*history{}
	err := w.follow(ctx, func(e *events.Event) error {
		h := all[e.Owner]
		if h == nil {
			h = &history{submitted: map[string]*events.BatchSubmitted{}}
			all[e.Owner] = h
		}
		if h.add(w.t, e); until(all) {
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		w.t.Fatalf("%s: did not happen within %v (%v): %+v", what, patience, err, summary(all))
	}
	return all
}

// follow yields the chain events of the log, from the first one.
func (w *world) follow(ctx context.Context, yield func(*events.Event) error) error {
	return w.log.Follow(ctx, eventlog.FollowConfig{Subject: "chain.>"}, func(s eventlog.Slice) error {
		for _, r := range s.Records {
			batch, err := events.DecodeBatch(r.Payload)
			if err != nil {
				return err
			}
			if err := yield(&batch[0]); err != nil {
				return err
			}
		}
		return nil
	})
}

func summary(all map[events.Owner]*history) (lines []string) {
	for key, h := range all {
		lines = append(lines, fmt.Sprintf("%.6s cut %d failed %d %q confirmed %d open %q", key, len(h.cut), len(h.failed), h.failed, len(h.confirmed), h.open))
	}
	return lines
}

func (h *history) add(t testing.TB, e *events.Event) {
	if h.versions++; e.OwnerVersion != h.versions {
		t.Errorf("%s: chain version %d is the %dth", e.Owner, e.OwnerVersion, h.versions)
	}
	switch d := e.Data.(type) {
	case *events.BatchCut:
		if h.open != "" {
			t.Errorf("%s: batch %s is cut while %s is open", e.Owner, d.BatchID, h.open)
		}
		h.cut, h.open = append(h.cut, d.BatchID), d.BatchID
	case *events.BatchSubmitted:
		if h.submitted[d.BatchID] != nil {
			t.Errorf("%s: batch %s has two transactions", e.Owner, d.BatchID)
		}
		f, of := flight{attempt: attempt{Transaction: d.Transaction}}, owner{key: e.Owner, Batch: &batch{Size: d.Size, Root: d.Root}}
		if !f.commits(&of) {
			t.Errorf("%s: batch %s has a transaction that does not commit it", e.Owner, d.BatchID)
		}
		h.submitted[d.BatchID] = d
	case *events.BatchConfirmed:
		h.confirmed, h.open = append(h.confirmed, *d), ""
	case *events.BatchFailed:
		h.failed, h.open = append(h.failed, d.Reason), ""
	}
}

// allAnchored waits until every leaf is in a confirmed batch. It then checks that each
// leaf is in exactly one, that the chain holds every root that the log calls anchored,
// and that no batch is left open.
func (w *world) allAnchored(except ...events.Owner) map[events.Owner]*history {
	w.t.Helper()
	skip := map[events.Owner]bool{}
	for _, key := range except {
		skip[key] = true
	}
	all := w.await("every leaf anchored", func(all map[events.Owner]*history) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for key, leaves := range w.leaves {
			h := all[key]
			if skip[key] {
				continue
			}
			if h == nil || len(h.confirmed) == 0 || h.confirmed[len(h.confirmed)-1].Size != uint64(len(leaves)) {
				return false
			}
		}
		return true
	})
	for key, leaves := range w.leaves {
		if !skip[key] {
			w.check(key, leaves, all[key])
		}
	}
	return all
}

func (w *world) check(key events.Owner, leaves []events.Hash, h *history) {
	w.t.Helper()
	if h.open != "" {
		w.t.Errorf("%s: batch %s is stuck", key, h.open)
	}
	var size uint64
	for _, c := range h.confirmed {
		if c.Size <= size {
			w.t.Errorf("%s: %d leaves are anchored after %d", key, c.Size, size)
		}
		size = c.Size
		if c.Root != rootOf(leaves[:c.Size]) {
			w.t.Errorf("%s: wrong root at %d leaves", key, c.Size)
		}
		if c.Cluster != w.chain.GenesisHash() {
			w.t.Errorf("%s: cluster %s", key, c.Cluster)
		}
		s, _, err := w.client.Statuses(w.t.Context(), []string{c.Signature}, true)
		if err != nil || s[0] == nil || s[0].Err != nil {
			w.t.Errorf("%s: transaction of %d leaves on the chain: %v, %v", key, c.Size, s, err)
		}
	}
	held := w.held(key)
	newest := h.confirmed[len(h.confirmed)-1]
	if held == nil || held.Size != newest.Size || held.Root != [32]byte(newest.Root) || held.Slot != newest.Slot {
		w.t.Errorf("%s: the account holds %+v, the log says %+v", key, held, newest)
	}
	if held != nil && held.Count != uint64(len(h.confirmed)) {
		w.t.Errorf("%s: the account moved %d times for %d batches", key, held.Count, len(h.confirmed))
	}
}

// held returns an owner's account on the chain, or nil if it does not exist.
func (w *world) held(key events.Owner) *commitment.Account {
	w.t.Helper()
	address, _ := commitment.Address(w.program, w.authority.PublicKey(), solana.PublicKey(key.Bytes()))
	accounts, _, err := w.client.Accounts(w.t.Context(), []solana.PublicKey{address}, chain.Finalized)
	w.must(err)
	if accounts[0] == nil {
		return nil
	}
	a, err := verify.DecodeAccount(accounts[0].Data)
	w.must(err)
	return &a
}
