package anchorer

import (
	"context"
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
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/projector"
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
	l := &lone{t: t, now: time.Unix(1_700_000_000, 0), cache: treeCache{map[events.Owner]events.Hash{}, map[events.Owner]uint64{}}}
	l.driver = &driver{
		cfg: &Config{
			Now: func() time.Time { return l.now }, Tree: l.cache.link, Chain: fundedChain{balance: 1 << 60},
			MaxFlights: 64, MaxWait: time.Minute, MaxLeaves: 1000,
		},
		store: &store{pool: pool}, rent: new(atomic.Uint64), folded: func() uint64 { return 0 },
		signer: signer{key: solana.NewWallet().PrivateKey}, status: &status{}, metrics: &metrics{balance: prometheus.NewGauge(prometheus.GaugeOpts{})},
		busy: make(map[events.Owner]uint64), held: make(map[events.Owner]*hold),
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

// link returns no proof.
func (s treeCache) link(_ context.Context, key events.Owner, _, to uint64) (tree.Link, error) {
	if to > s.sizes[key] {
		return tree.Link{}, tree.ErrIncomplete
	}
	return tree.Link{ToRoot: s.roots[key]}, nil
}

// owner makes an owner with size leaves, confirmed of them anchored. The cache has all.
func (l *lone) owner(confirmed, size uint64) *owner {
	l.t.Helper()
	o := newOwner(logtest.Owner())
	o.ConfirmedSize, o.Created = confirmed, confirmed > 0
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

func (l *lone) save(owners ...*owner) {
	l.t.Helper()
	w := projector.NewWriter(nil)
	changed := make(map[events.Owner]*owner)
	for _, o := range owners {
		changed[o.key] = o
	}
	l.store.write(w, changed, nil, "")
	for _, step := range w.Steps() {
		_, err := l.store.pool.Exec(l.t.Context(), step.SQL, step.Args...)
		must(l.t, err)
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
		o.Waiting = time.Time{}
		l.grow(o, c.size)
		if c.open {
			must(t, o.fold(&events.BatchCut{BatchID: newID(), Size: 2, Root: o.frontier.Root()}, l.now))
			must(t, o.fold(&events.BatchSubmitted{BatchID: o.Batch.ID, Signature: "s"}, l.now))
			l.busy[o.key] = inFlight
		}
		l.save(o)
		l.now = made.Add(c.waited)
		work, err := l.find(t.Context())
		must(t, err)
		if due := slices.ContainsFunc(work, func(found *owner) bool { return found.key == o.key }); due != c.due {
			t.Errorf("%s: due is %v", name, due)
		}
		must(t, errorOf(l.store.pool.Exec(t.Context(), `DELETE FROM ledger_anchor.owners`)))
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
	late.Add(int64(3 * time.Second))
	w.allAnchored()
	w.turns(p, nil)
	if warned, ended := len(said.of(slog.LevelWarn, missing)), len(said.of(slog.LevelInfo, complete)); warned != 1 || ended != 1 {
		t.Errorf("%d lines say that leaves are missing, %d that they have come, want one of each", warned, ended)
	}
}

// More owners are refused than can be held back, as after a restore of an older log. The
// newest of them is held back all the same, so that it does not fail the others' transaction
// once more.
func TestTheNewestRefusalIsHeldBack(t *testing.T) {
	t.Parallel()
	l := newLone(t)
	l.cfg.Logger, l.metrics.alarms = slog.New(slog.DiscardHandler), prometheus.NewCounter(prometheus.CounterOpts{})
	for range mostHeld {
		l.held[logtest.Owner()] = &hold{until: l.now.Add(time.Minute), alarm: errFork}
	}
	key := logtest.Owner()
	l.keepBack(key, hold{alone: true, alarm: errFork}, time.Second, time.Minute)
	if h := l.held[key]; h == nil || !h.alone || !h.until.After(l.now) || len(l.held) != mostHeld {
		t.Errorf("%+v, %d are held", h, len(l.held))
	}
}
