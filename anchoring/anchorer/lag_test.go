package anchorer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/projections/tree"
)

// lone is a driver with its own tables and no log. Its clock stands still, and the test
// sets the contents of its tree cache.
type lone struct {
	*driver
	t           *testing.T
	now         time.Time
	cache       treeCache
	dear, cheap uint64 // a first commit, and a later one
}

func newLone(t *testing.T) *lone {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pgtest.Database(t))
	must(t, err)
	defer schema.Disconnect(conn)
	must(t, makeTables(t.Context(), conn))
	pool, err := pgxpool.New(t.Context(), conn.Config().ConnString())
	must(t, err)
	t.Cleanup(pool.Close)
	key, err := solana.NewRandomPrivateKey()
	must(t, err)
	l := &lone{t: t, now: time.Unix(1_700_000_000, 0), cache: treeCache{map[events.Owner]events.Hash{}, map[events.Owner]uint64{}}}
	l.driver = &driver{
		cfg: &Config{
			Now: func() time.Time { return l.now }, Tree: l.cache, Chain: fundedChain{balance: 1 << 60},
			MaxFlights: 64, MaxWait: time.Minute, MaxLeaves: 1000,
		},
		store: &store{pool: pool}, rent: new(atomic.Uint64), folded: func() uint64 { return 0 },
		signer: signer{key: key}, status: &status{}, metrics: &metrics{balance: prometheus.NewGauge(prometheus.GaugeOpts{})},
		busy: make(map[events.Owner]uint64), lag: newBacklog(),
	}
	const rent = 1_000_000
	l.rent.Store(rent)
	l.dear, l.cheap = l.signer.cost(true)+rent, l.signer.cost(false)
	return l
}

// treeCache is a tree cache: the newest root of each owner, and the number of leaves that
// the cache has of each.
type treeCache struct {
	roots map[events.Owner]events.Hash
	sizes map[events.Owner]uint64
}

func (s treeCache) Root(_ context.Context, key events.Owner, size uint64) (events.Hash, error) {
	if size > s.sizes[key] {
		return events.Hash{}, tree.ErrIncomplete
	}
	return s.roots[key], nil
}

func (s treeCache) Consistency(context.Context, events.Owner, uint64, uint64) ([]events.Hash, error) {
	return nil, errors.New("no proofs are kept here")
}

// owner makes an owner with size leaves, confirmed of them anchored. The cache has all.
func (l *lone) owner(confirmed, size uint64) *owner {
	l.t.Helper()
	o := newOwner(newOwnerKey())
	o.confirmedSize = confirmed
	l.grow(o, size)
	l.cache.sizes[o.key] = size
	return o
}

func (l *lone) grow(o *owner, size uint64) {
	l.t.Helper()
	for o.size() < size {
		must(l.t, o.leaf(&events.MemoryWritten{LeafIndex: o.size(), LeafHash: events.Hash{byte(o.size())}}, l.now))
	}
	l.cache.roots[o.key] = o.frontier.Root()
}

// owners makes owners, each with one waiting leaf, and stores them.
func (l *lone) owners(n int, confirmed uint64) []*owner {
	l.t.Helper()
	all := make([]*owner, n)
	for i := range all {
		all[i] = l.owner(confirmed, confirmed+1)
	}
	l.save(all...)
	return all
}

func (l *lone) save(owners ...*owner) {
	l.t.Helper()
	_, err := l.store.pool.Exec(l.t.Context(), upsertSQL, l.store.fields(owners)...)
	must(l.t, err)
}

// turn does a step up to the first append. It returns the owners to sign for.
func (l *lone) turn() map[events.Owner]bool {
	l.t.Helper()
	work, err := l.find(l.t.Context())
	must(l.t, err)
	if room := l.cfg.MaxFlights * packed; len(work) > room {
		l.t.Fatalf("%d owners are found for a room of %d", len(work), room)
	}
	signed, err := l.affordable(l.t.Context(), work)
	must(l.t, err)
	keys := map[events.Owner]bool{}
	for _, o := range signed {
		keys[o.key] = true
	}
	return keys
}

// More owners lag than are kept, because the projector is down. Only the kept ones are
// tried again, and all are signed for when the cache has their leaves.
func TestManyLag(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	n := maxLagging + l.cfg.MaxFlights*packed
	slow := l.owners(n, 0)
	for _, o := range slow {
		l.cache.sizes[o.key] = 0
	}
	l.now = l.now.Add(l.cfg.MaxWait)
	for start := l.now; l.now.Sub(start) < lagPatience; l.now = l.now.Add(lagLongest) {
		if signed := l.turn(); len(signed) != 0 || len(l.lag.all) > maxLagging {
			t.Fatalf("%d are signed for, %d are kept back", len(signed), len(l.lag.all))
		}
		if err := l.lag.trouble(l.now); err != nil {
			t.Fatalf("after %v: %v", l.now.Sub(start), err)
		}
	}
	if err := l.lag.trouble(l.now); !errors.Is(err, errLagging) {
		t.Errorf("after %v: %v", lagPatience, err)
	}
	for _, o := range slow {
		l.cache.sizes[o.key] = o.size()
	}
	l.now = l.now.Add(lagLongest)
	signed := map[events.Owner]bool{}
	for range n/(l.cfg.MaxFlights*packed) + 5 {
		for key := range l.turn() {
			signed[key] = true
			l.busy[key] = inFlight
		}
	}
	if len(signed) != n {
		t.Errorf("%d of %d are signed for when the cache has come", len(signed), n)
	}
	if err := l.lag.trouble(l.now); err != nil || len(l.lag.all) != 0 {
		t.Errorf("%d are kept back, %v", len(l.lag.all), err)
	}
}

// A few owners lag, and they have waited longest. The owners behind them are anchored.
func TestLaggardsStopNobody(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	for _, o := range l.owners(maxLagging-1, 0) {
		l.cache.sizes[o.key] = 0
	}
	l.now = l.now.Add(time.Second)
	good := l.owners(1, 0)[0]
	l.now = l.now.Add(l.cfg.MaxWait)
	l.turn()
	if signed := l.turn(); !signed[good.key] || len(signed) != 1 {
		t.Errorf("%d are signed for, %v the one behind", len(signed), signed[good.key])
	}
}

// An owner who writes all the time has leaves that are not in the cache yet at every
// look. That is no trouble, and no reason to look less often.
func TestWhoWritesAllTheTimeIsNoTrouble(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	o := l.owners(1, 0)[0]
	for start := l.now; l.now.Sub(start) < 2*lagPatience; l.now = l.now.Add(lagShortest) {
		l.cache.sizes[o.key] = o.size()
		l.grow(o, o.size()+1)
		l.save(o)
		if signed := l.turn(); len(signed) != 0 {
			t.Fatal("signed for what the cache does not have")
		}
		if _, again := l.lag.split(l.now.Add(lagShortest)); l.now.Sub(start) >= l.cfg.MaxWait && len(again) != 1 {
			t.Fatalf("after %v it is kept back for longer", l.now.Sub(start))
		}
	}
	if err := l.lag.trouble(l.now); err != nil {
		t.Error(err)
	}
}

// A lagging owner that another anchorer has anchored meanwhile is no longer tried.
func TestLaggardsAreForgotten(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	o := l.owners(1, 0)[0]
	l.cache.sizes[o.key] = 0
	l.now = l.now.Add(l.cfg.MaxWait)
	if l.turn(); len(l.lag.all) != 1 {
		t.Fatalf("%d are kept back", len(l.lag.all))
	}
	o.confirmedSize, o.waiting = o.size(), time.Time{}
	l.save(o)
	l.now = l.now.Add(lagLongest)
	if l.turn(); len(l.lag.all) != 0 {
		t.Error("kept back though nothing waits")
	}
}

// New owners lagged for a moment. Then the authority can't pay for them. The other owners
// of their partition are still anchored.
func TestLaggardsWhoCantBePaidForStopNobody(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	slow := l.owners(maxLagging, 0)
	for _, o := range slow {
		l.cache.sizes[o.key] = 0
	}
	l.now = l.now.Add(l.cfg.MaxWait)
	if l.turn(); len(l.lag.all) != maxLagging {
		t.Fatalf("%d are kept back", len(l.lag.all))
	}
	for _, o := range slow {
		l.cache.sizes[o.key] = o.size()
	}
	l.cfg.Chain = fundedChain{balance: l.dear - 1}
	cheap := l.owners(5, 1)
	l.now = l.now.Add(l.cfg.MaxWait)
	l.turn()
	if signed := l.turn(); len(signed) != len(cheap) || len(l.lag.all) != 0 {
		t.Errorf("%d are signed for, %d are kept back", len(signed), len(l.lag.all))
	}
}

// More owners wait for a first commit than a step has room for, and they have waited
// longest. Some of them have a cut batch. The authority can't pay for a first commit.
// Later commits are cheap, and are still made.
func TestTheDearLeaveRoom(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	l.cfg.Chain = fundedChain{balance: l.dear - 1}
	dear := l.owners(l.cfg.MaxFlights*packed+100, 0)
	for _, o := range dear[:len(dear)/2] {
		must(t, o.fold(&events.BatchCut{BatchID: newID(), Size: o.size(), Root: o.frontier.Root()}, l.now, ""))
	}
	l.save(dear...)
	l.now = l.now.Add(time.Second)
	cheap := l.owners(3, 1)
	l.now = l.now.Add(l.cfg.MaxWait)
	signed := l.turn()
	for _, o := range cheap {
		if !signed[o.key] {
			t.Error("a cheap one is not signed for")
		}
	}
	if len(signed) != len(cheap) || !errors.Is(l.status.funds, errUnfunded) {
		t.Errorf("%d are signed for, %v", len(signed), l.status.funds)
	}
	l.cfg.Chain = fundedChain{balance: 1 << 60}
	if signed = l.turn(); len(signed) != l.cfg.MaxFlights*packed || l.status.funds != nil {
		t.Errorf("with funds %d are signed for, %v", len(signed), l.status.funds)
	}
}

// A batch is due when its oldest leaf has waited for MaxWait, or when MaxLeaves wait. It
// is not due while another batch of the owner is open.
func TestDue(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	l.cfg.MaxLeaves = 3
	made := l.now
	for name, c := range map[string]struct {
		anchored, size uint64
		waited         time.Duration
		open, due      bool
	}{
		"no leaf waits":              {2, 2, time.Hour, false, false},
		"a leaf is too young":        {0, 1, l.cfg.MaxWait - time.Second, false, false},
		"a leaf is old enough":       {0, 1, l.cfg.MaxWait, false, true},
		"a later leaf is old enough": {4, 5, l.cfg.MaxWait, false, true},
		"two leaves are too few":     {4, 6, 0, false, false},
		"three leaves are enough":    {4, 7, 0, false, true},
		"three first leaves, too":    {0, 3, 0, false, true},
		"another batch is in flight": {0, 4, time.Hour, true, false},
	} {
		l.now = made
		o := l.owner(c.anchored, c.anchored)
		o.waiting = time.Time{}
		l.grow(o, c.size)
		if c.open {
			must(t, o.fold(&events.BatchCut{BatchID: newID(), Size: 2, Root: o.frontier.Root()}, l.now, ""))
			must(t, o.fold(&events.BatchSubmitted{BatchID: o.batch.id, Signature: "s"}, l.now, ""))
			l.busy[o.key] = inFlight
		}
		l.save(o)
		l.now = made.Add(c.waited)
		work, err := l.find(t.Context())
		must(t, err)
		if due := slices.ContainsFunc(work, func(found *owner) bool { return found.key == o.key }); due != c.due {
			t.Errorf("%s: due is %v", name, due)
		}
		_, err = l.store.pool.Exec(t.Context(), `DELETE FROM ledger_anchor.owners`)
		must(t, err)
	}
}

func TestShare(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0)
	for _, test := range []struct{ anchored, fresh, room, wantAnchored, wantFresh int }{
		{0, 0, 8, 0, 0}, {3, 2, 8, 3, 2}, {8, 0, 8, 8, 0}, {0, 8, 8, 0, 8}, {8, 8, 8, 4, 4}, {1, 8, 8, 1, 7}, {8, 1, 8, 7, 1}, {7, 7, 7, 3, 4},
	} {
		at := start
		list := func(n int, confirmed uint64) (owners []*owner) {
			for range n {
				o := newOwner(newOwnerKey())
				o.confirmedSize, o.waiting = confirmed, at
				at = at.Add(time.Second)
				owners = append(owners, o)
			}
			return owners
		}
		fresh := list(test.fresh, 0)
		anchored, n := 0, 0
		last := time.Time{}
		for _, o := range share(list(test.anchored, 1), fresh, test.room) {
			if n++; o.confirmedSize > 0 {
				anchored++
			}
			if o.oldest().Before(last) {
				t.Errorf("%+v: not the longest first", test)
			}
			last = o.oldest()
		}
		if anchored != test.wantAnchored || n-anchored != test.wantFresh {
			t.Errorf("%+v: %d and %d", test, anchored, n-anchored)
		}
	}
}

// A projector is down. After a while, readiness and a log line report it. Other owners do
// not wait. When the projector is back, its owners are anchored too.
func TestTreeCacheLags(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	said := newLines()
	slow := w.owners(packed + 1)
	w.mu.Lock()
	for _, key := range slow {
		w.slow[key] = true
	}
	w.mu.Unlock()
	w.owners(2)
	var late atomic.Int64
	p := w.start(nil, func(c *Config) {
		c.MaxFlights, c.Logger = 1, slog.New(said)
		c.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	})
	all := w.allAnchored(slow...)
	for _, key := range slow {
		if all[key] != nil {
			t.Errorf("cut before the cache had it: %v", all[key].cut)
		}
	}
	w.turns(p, nil)
	const missing, complete = "can't be compared with the tree cache", "can be compared with the tree cache again"
	if n := len(said.of(slog.LevelWarn, missing)); n != 0 {
		t.Errorf("%d lines at once", n)
	}
	late.Store(int64(lagPatience))
	w.turns(p, errLagging)
	w.mu.Lock()
	clear(w.slow)
	w.mu.Unlock()
	late.Add(int64(lagLongest))
	w.allAnchored()
	w.turns(p, nil)
	if warned, ended := len(said.of(slog.LevelWarn, missing)), len(said.of(slog.LevelInfo, complete)); warned != 1 || ended != 1 {
		t.Errorf("%d lines say that leaves are missing, %d that they have come, want one of each", warned, ended)
	}
}
