package anchorer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/tree"
)

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

// Tree is the tree cache, from which the APIs make proofs. Errors that wrap
// tree.ErrIncomplete mean that the cache does not have that many leaves yet.
type Tree interface {
	Root(ctx context.Context, owner events.Owner, size uint64) (events.Hash, error)
	Consistency(ctx context.Context, owner events.Owner, from, to uint64) ([]events.Hash, error)
}

// Config of an anchorer.
type Config struct {
	Pool  *pgxpool.Pool
	Log   eventlog.Log
	Lag   time.Duration // see projector.Config
	Chain Chain
	Tree  Tree // default: the read models in Pool

	Authority solana.PrivateKey // signs and pays
	Program   solana.PublicKey

	MaxWait   time.Duration // cut a batch when its oldest leaf has waited this long,
	MaxLeaves int           // or when this many leaves wait

	PriorityFee       uint64 // micro-lamports per compute unit
	MaxLamportsPerDay uint64 // spending bound for a UTC day; 0: none

	// Commitment is the level at which a transaction counts as landed, and at which
	// accounts are read (default: finalized).
	Commitment chain.Commitment

	PollEvery   time.Duration // between polls of the transactions in flight; default 1 s
	ResendEvery time.Duration // between sends of the same bytes; default 2 s
	MaxFlights  int           // transactions in flight at once; default 64

	Now        func() time.Time
	NewID      func() string
	Logger     *slog.Logger
	Registerer prometheus.Registerer                   // nil: none
	Turn       func(ctx context.Context, working bool) // see projector.Config

	around func(committed bool) error // for tests: called before a slice is applied, and after it is saved
}

func (c *Config) setDefaults() {
	if c.Tree == nil {
		c.Tree = readModels{c.Pool}
	}
	if c.Commitment == "" {
		c.Commitment = chain.Finalized
	}
	c.PollEvery = cmp.Or(max(0, c.PollEvery), time.Second)
	c.ResendEvery = cmp.Or(max(0, c.ResendEvery), 2*time.Second)
	c.MaxFlights = cmp.Or(max(0, c.MaxFlights), 64)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Validate returns all problems at once.
func (c *Config) Validate() error {
	var problems []error
	need := func(ok bool, what string) {
		if !ok {
			problems = append(problems, errors.New("anchorer: "+what))
		}
	}
	need(c.Pool != nil, "no database")
	need(c.Log != nil, "no log")
	need(c.Chain != nil, "no chain")
	need(c.NewID != nil, "nothing that makes ids")
	need(len(c.Authority) == 64, "the authority is not a key pair")
	need(!c.Program.IsZero(), "no program")
	need(c.MaxWait > 0, "MaxWait must be positive")
	need(c.MaxLeaves > 0, "MaxLeaves must be positive")
	need(c.Commitment == "" || c.Commitment.Valid(), "Commitment must be confirmed or finalized")
	return errors.Join(problems...)
}

// readModels is the tree cache in the database.
type readModels struct{ pool *pgxpool.Pool }

func (r readModels) Root(ctx context.Context, owner events.Owner, size uint64) (events.Hash, error) {
	ctx, cancel := context.WithTimeout(ctx, tablesTimeout)
	defer cancel()
	return tree.Root(ctx, r.pool, owner, size)
}

func (r readModels) Consistency(ctx context.Context, owner events.Owner, from, to uint64) ([]events.Hash, error) {
	ctx, cancel := context.WithTimeout(ctx, tablesTimeout)
	defer cancel()
	return tree.Consistency(ctx, r.pool, owner, from, to)
}
