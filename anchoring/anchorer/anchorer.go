// Package anchorer commits the roots of owners' logs to the chain.
//
// It folds the log (leaves, and its own chain events) into one compact range
// and at most one open batch per owner, and drives each batch through
//
//	leaves wait
//	    │  due: ANCHOR_MAX_WAIT or ANCHOR_MAX_LEAVES; own root = tree cache's root
//	    ▼
//	   cut ───────────────────────────┐
//	    │  packed with up to seven    │
//	    │  others, signed, recorded   │
//	    ▼  before the first byte is   │
//	submitted ──────────────────┐     │
//	    │  sent until it lands, │     │
//	    │  account read back    │     │
//	    ▼                       ▼     │
//	confirmed                failed ──┘ cut again: new batch, fresh blockhash
//
// Every arrow is one appended event, decided on the owner's chain version. The log is the
// only source of truth. The rows that this package keeps in PostgreSQL are a cache of the
// fold, and its in-process state can be lost at any moment. There is no recovery code. At
// startup an anchorer finds the open batches in the fold and continues each from its
// current state, with the same functions that it uses for batches it cut itself.
//
// What a crash leaves behind, by the last step before the crash:
//
//	BatchCut appended          a cut batch; the next anchorer submits it
//	some BatchSubmitted of a   the next anchorer records the transaction for
//	packed transaction           the other owners in it too, then sends it
//	sent                       its status on the chain decides
//	landed                     the account is read back and the batch confirmed
//	some BatchConfirmed        the others follow in the same way
//
// The anchorer gives up a transaction only when the transaction can no longer land. It
// checks three things in this order, each read no older than the one before: the
// finalized block height is past the transaction's last valid one, no status is known,
// and the finalized account lacks the commit. Two cases need no waiting: the transaction
// landed and failed, or preflight refused it. A refused transaction does no harm if
// another process sends it later: the program accepts no commit that shrinks or forks a
// log.
//
// Two anchorers do no harm. Package projector runs the fold as a projection in the schema
// ledger_anchor. Its lock lets one anchorer work while others stand by. Its checkpoint fences
// rows and position, and its proofs detect a different log. If two anchorers share no
// database, the owner's expected chain version lets only one of two decisions into the
// log.
package anchorer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/tree"
)

// Anchorer anchors all owners' logs.
type Anchorer struct {
	cfg     Config
	store   *store
	signer  signer
	folding *projector.Runner
	rent    *atomic.Uint64 // lamports of a commitment account; 0: not read yet
	status  status
	metrics *metrics
	refuted uint64 // the message that contradicted the tables when they were last renewed for that
}

// New returns an anchorer that does nothing until Run.
func New(cfg Config) *Anchorer {
	cfg.setDefaults()
	a := &Anchorer{
		cfg: cfg, store: &store{pool: cfg.Pool, key: newRowKey(cfg.Authority, cfg.Program)},
		signer: signer{cfg.Authority, cfg.Program, cfg.PriorityFee}, rent: new(atomic.Uint64),
	}
	a.metrics = newMetrics(a)
	a.folding = projector.New(projector.Config{
		Name: "anchorer", Pool: cfg.Pool, Schema: schemaName, Tables: tables{}, Log: cfg.Log,
		Projections: []projector.Projection{&fold{anchorer: a}}, Only: relevant,
		Work: a.drive, Renew: a.renewal, Applied: func(uint64) { _ = cfg.around(true) }, Turn: cfg.Turn,
		Logger: cfg.Logger, MinBackoff: 200 * time.Millisecond, MaxBackoff: 10 * time.Second, ReadyLag: cfg.readyLag,
	})
	return a
}

// Run anchors until ctx ends, and then returns nil. After any failure it starts again
// from its checkpoint, after a pause.
func (a *Anchorer) Run(ctx context.Context) error { return a.folding.Run(ctx) }

// renewal returns the steps that empty the tables if err says that the tables can't be
// trusted. It returns nil for any other error. The log has everything that the tables
// held.
func (a *Anchorer) renewal(err error) []projector.Step {
	switch {
	case errors.Is(err, projector.ErrAheadOfLog), errors.Is(err, projector.ErrOtherLog):
		// The rows were folded from a log that no longer exists. Continuing from that
		// position would skip the messages that this log has before it.
		a.cfg.Logger.Error("this is not the log that the anchorer's state was built from; the state is rebuilt from the log's first message", "err", err)
	case errors.Is(err, errAltered):
		// Other rows may have been altered too.
		a.metrics.alarms.Inc()
		a.cfg.Logger.Error("the anchorer's tables were altered, or authority or program have changed; "+
			"the state is rebuilt from the log's first message", "err", err)
	case a.refutes(err):
		a.metrics.alarms.Inc()
		a.cfg.Logger.Error("a message contradicts the anchorer's tables; the state is rebuilt from the log's first message", "err", err)
	default:
		return nil
	}
	return a.store.empty()
}

// refutes reports whether an error says that a message contradicts the tables. One that
// contradicted them before, and was not passed with the tables made again, contradicts the log.
func (a *Anchorer) refutes(err error) bool {
	found, ok := errors.AsType[*contradiction](err)
	if !ok || found.seq == a.refuted {
		return false
	}
	a.refuted = found.seq
	return true
}

// drive runs steps until ctx ends or something fails. It begins once the fold holds all
// that the log held at the start. An earlier decision would rest on stale state.
func (a *Anchorer) drive(ctx context.Context) (err error) {
	defer func() { a.status.clear() }()
	d := a.newDriver()
	if d.genesis, err = a.store.cluster(ctx); err != nil {
		return err
	}
	var counted time.Time
	for {
		if err := d.step(ctx); err != nil {
			return err
		}
		// This is how often waiting owners are counted, for the metrics.
		if time.Since(counted) >= 5*time.Second {
			waiting, err := a.store.count(ctx)
			if err != nil {
				return err
			}
			a.status.set(func(s *status) { s.counts = waiting })
			counted = time.Now()
		}
		if !eventlog.Pause(ctx, a.cfg.PollEvery) {
			return nil
		}
	}
}

func (a *Anchorer) newDriver() *driver {
	a.rent.Store(0) // the rent may have changed: read it from the chain again
	return &driver{
		cfg: &a.cfg, store: a.store, rent: a.rent, status: &a.status, metrics: a.metrics,
		folded:  func() uint64 { return a.folding.Status().Position },
		signer:  a.signer,
		flights: make(map[string]*flight), busy: make(map[events.Owner]uint64), held: make(map[events.Owner]*hold),
	}
}

// Chain is the part of the chain's RPC that the anchorer needs. Package chain implements
// it.
type Chain interface {
	GenesisHash(ctx context.Context) (string, error)
	LatestBlockhash(ctx context.Context) (chain.Blockhash, error)
	FinalizedHeight(ctx context.Context) (chain.Height, error)
	Balance(ctx context.Context, key solana.PublicKey) (uint64, error)
	Rent(ctx context.Context, size int) (uint64, error)
	Send(ctx context.Context, raw []byte, preflight bool) error
	Statuses(ctx context.Context, signatures []string, history bool) ([]*chain.Status, uint64, error)
	Accounts(ctx context.Context, keys []solana.PublicKey, commitment chain.Commitment) ([]*chain.Account, uint64, error)
}

type Config struct {
	Pool  *pgxpool.Pool
	Log   eventlog.Log
	Chain Chain
	// Tree links two sizes of an owner's log, by the tree cache from which the APIs make
	// proofs (default: the read models in Pool). An error that wraps tree.ErrIncomplete means
	// that the cache does not have that many leaves yet.
	Tree func(ctx context.Context, owner events.Owner, from, to uint64) (tree.Link, error)

	Authority solana.PrivateKey // signs and pays
	Program   solana.PublicKey

	MaxWait   time.Duration // cut a batch when its oldest leaf has waited this long,
	MaxLeaves int           // or when this many leaves wait

	PriorityFee       uint64 // micro-lamports per compute unit
	MaxLamportsPerDay uint64 // spending bound for a UTC day; 0: none

	PollEvery   time.Duration // between steps, and so between polls of the chain; default 1 s
	ResendEvery time.Duration // between sends of the same bytes; default 2 s
	MaxFlights  int           // transactions in flight at once; default 64

	Now        func() time.Time
	NewID      func() string
	Logger     *slog.Logger
	Registerer prometheus.Registerer                   // nil: none
	Turn       func(ctx context.Context, working bool) // see projector.Config

	// For tests.
	around   func(committed bool) error // called before a slice is applied, and after it is saved
	readyLag time.Duration              // see projector.Config
}

func (c *Config) setDefaults() {
	if c.Tree == nil {
		pool := c.Pool
		c.Tree = func(ctx context.Context, owner events.Owner, from, to uint64) (tree.Link, error) {
			ctx, cancel := context.WithTimeout(ctx, tablesTimeout)
			defer cancel()
			return tree.Between(ctx, pool, owner, from, to)
		}
	}
	c.PollEvery = cmp.Or(max(0, c.PollEvery), time.Second)
	c.ResendEvery = cmp.Or(max(0, c.ResendEvery), 2*time.Second)
	c.MaxFlights = cmp.Or(max(0, c.MaxFlights), 64)
	if c.around == nil {
		c.around = func(bool) error { return nil }
	}
}
