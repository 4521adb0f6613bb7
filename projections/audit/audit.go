// Package audit checks the service's records: it replays the log once, with its own
// rules, and compares the result with the read models, the tree cache, the recorded
// batches and the chain.
//
// It shares only the events and the tree's arithmetic with the code that it checks. It
// computes each expected row itself, without the projections. If it cannot check
// something, it reports that, and does not count it as good.
//
// # How it reads
//
// The read models are read in one snapshot of the database, so traffic can continue. The log
// is read once, up to the position of that snapshot. The memories are read at the same time,
// in log order, and each row is compared with its event; then the other tables are compared.
// Afterwards the log is read on, up to the end that it had when the audit began.
//
// # Memory
//
// The audit keeps about 2 kB for each owner, and about 300 bytes for each session, API key,
// grant, batch and stake movement. For each memory it keeps the leaf hash, and digests of
// ids that must be unique (commands, events, memories, idempotency keys): some 170 bytes (an
// estimate).
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/verify/leaf"
)

// ErrNoKey means that the owner was forgotten: their data key is gone, and content that
// was sealed with it can't be opened. Config.Keys returns an error that wraps ErrNoKey.
var ErrNoKey = errors.New("no data key")

// Unopened is the error that Config.Keys returns if the master key does not open a data
// key, or the key was lost. The audit continues, and is incomplete unless Optional is set.
type Unopened struct {
	Why      string // the audit counts leaves by this text
	Optional bool   // no key was configured; the key was found in a run's folder
}

func (u *Unopened) Error() string { return u.Why }

// Log is the part of the log that an audit needs: its length, and reads. Direct gets
// are enough; see eventlog.JetStream.
type Log interface {
	eventlog.HeadReader
	eventlog.PartReader
}

// Key opens an owner's sealed content.
type Key interface {
	Open(sealing int, leaf uint64, memoryID string, sealed []byte) (string, error)
	// Destroyed reports whether the key of a single leaf was destroyed.
	Destroyed(leaf uint64) bool
	// LeafSecret returns the secret of a leaf's salt. via is how the memory was written.
	LeafSecret(salt events.Salt, via *events.Via) (leaf.Secret, error)
	// Erasures is how many times the owner had erased everything when the key was made.
	// The key opens no leaf from before the last of these erasures.
	Erasures() int
}

// Commitment is the content of a commitment account, and its place on the chain.
type Commitment struct {
	Size uint64
	Root events.Hash
	Slot uint64 // of its newest commit

	Cluster, ProgramID, Account string
}

// Chain reads commitment accounts: one entry for each owner, nil if the owner has no
// account. An error means that the chain did not answer.
type Chain interface {
	// GenesisHash identifies the chain.
	GenesisHash(ctx context.Context) (string, error)
	// Commitments returns the owners' accounts, and the slot that the chain's node has reached.
	Commitments(ctx context.Context, owners []events.Owner) (all []*Commitment, reached uint64, err error)
}

// Config configures an audit. Only Log and Report are required. The summary lists every
// missing part as not checked. A configured part that does not answer or open makes the
// audit incomplete.
type Config struct {
	Log   Log
	Owner events.Owner // audit only this owner; empty means all owners

	Keys  func(context.Context, events.Owner) (Key, error) // nil: leaves are not recomputed
	Pool  *pgxpool.Pool                                    // nil: the log alone
	Chain Chain                                            // nil: no accounts
	// WhyNoKeys, WhyNoPool and WhyNoChain say why Keys, Pool or Chain is nil.
	WhyNoKeys, WhyNoPool, WhyNoChain string

	// Replicas, if any, are all read before the audit. The audit then reads from a
	// complete replica. Without Replicas it reads from Log.
	Replicas []Replica

	// Report is called with every finding as soon as it is made.
	Report func(Finding)
	// Progress, if set, is called from time to time with the sequence reached.
	Progress func(reached, through uint64)
	// Patience is how long the audit waits for the read models to catch up with the
	// log, and for the next message of a single node; 0 means 30 s.
	Patience time.Duration
}

// Run runs an audit. It returns an error if the audit could not finish. Damage in the
// data is reported as findings, not as an error.
func Run(ctx context.Context, cfg Config) (Summary, error) {
	cfg.Patience = cmp.Or(cfg.Patience, 30*time.Second)
	a := &auditor{cfg: cfg, report: &report{to: cfg.Report, unread: map[unread]uint64{}}}
	if err := a.run(ctx); err != nil {
		return a.report.finish(), fmt.Errorf("audit: %w", err)
	}
	return a.report.finish(), nil
}

type auditor struct {
	cfg     Config
	report  *report
	fold    *fold
	through uint64 // the sequence up to which is checked: at first, that of the read models
}

func (a *auditor) run(ctx context.Context) error {
	head, err := a.cfg.Log.Head(ctx)
	if err != nil {
		return err
	}
	a.through = head
	if err := a.checkReplicas(ctx, head); err != nil {
		return err
	}
	parts := &steady{Log: a.cfg.Log, holes: map[uint64]bool{}}
	a.cfg.Log = parts
	defer a.reportHoles(parts)
	var db *snapshot
	if a.cfg.Pool == nil {
		a.report.notChecked("the read models and the tree cache: %s", cmp.Or(a.cfg.WhyNoPool, "no database"))
	} else {
		if db, err = openSnapshot(ctx, a.cfg.Pool, head, a.cfg.Patience); err != nil {
			return err
		}
		defer db.close()
		if err := a.align(ctx, db, head); err != nil {
			return err
		}
	}
	if err := a.replay(ctx, db); err != nil {
		return err
	}
	// A message that the read models do not hold may have stopped the projector.
	if err := a.read(ctx, a.through+1, head); err != nil {
		return err
	}
	a.through = max(a.through, head)
	a.report.summary.Through = a.through
	if err := a.afterReplay(ctx); err != nil {
		return err
	}
	if a.cfg.Owner != "" && a.fold.owners[a.cfg.Owner] == nil {
		a.report.incomplete("owner %s: up to sequence %d the log has no such owner", a.cfg.Owner, a.through)
	}
	return a.checkChain(ctx)
}

// align decides up to where the log is read before the read models are compared: up to the
// database's position, so that both are of the same moment.
func (a *auditor) align(ctx context.Context, db *snapshot, head uint64) error {
	// The snapshot can be newer than head.
	newest, err := eventlog.HeadHolding(ctx, a.cfg.Log, db.at.Seq)
	if err != nil {
		return err
	}
	switch at := db.at.Seq; {
	case at > newest:
		a.report.add(Finding{Check: CheckSequence, Seq: at, Table: "checkpoint", Column: "seq", Detail: fmt.Sprintf(
			"the read models are at sequence %d, the log ends at %d: the log lost messages, or is not the one these tables were made from", at, newest)})
	case at < head:
		a.report.incomplete("sequences %d to %d: the read models do not hold them yet; is a projector running?", at+1, head)
	}
	a.through = min(db.at.Seq, newest)
	return nil
}
