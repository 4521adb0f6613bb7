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
	"github.com/memory-ledger/ledger/events/leaf"
	"github.com/memory-ledger/ledger/projections/projector"
)

// ErrNoKey: the owner was forgotten, so what is sealed with their data key can't be
// opened. A keystore's function wraps it.
var ErrNoKey = errors.New("no data key")

// Unopened is a keystore's error where the master key does not open what it
// should. The audit goes on, and is incomplete.
type Unopened struct {
	Why      string // without the owner: leaves are counted by it
	Optional bool   // that key was not configured; it was at hand
}

func (u *Unopened) Error() string { return u.Why }

// Log is what an audit needs of the log: how long it is, and to read it. Direct
// gets suffice; see eventlog.Direct.
type Log interface {
	Head(ctx context.Context) (uint64, error)
	eventlog.PartReader
}

// Key opens an owner's sealed content.
type Key interface {
	Open(memoryID string, sealed []byte) (string, error)
	LeafSecret() leaf.Secret
	// Erasures is how often the owner had erased all when the key was made. It opens no
	// leaf from before.
	Erasures() int
}

// Commitment is what a commitment account holds, and where that is.
type Commitment struct {
	Size uint64
	Root events.Hash
	Slot uint64 // of its newest commit

	Cluster, ProgramID, Account string
}

// Chain reads commitment accounts: one entry for each owner, nil where there
// is no account. An error means that the chain could not be asked.
type Chain interface {
	// GenesisHash tells the chain from every other.
	GenesisHash(ctx context.Context) (string, error)
	Commitments(ctx context.Context, owners []events.Owner) ([]*Commitment, error)
}

// Config of an audit. Only Log is required; whatever else is missing is said
// to be not checked. What is there and does not answer or open makes the audit
// incomplete.
type Config struct {
	Log   Log
	Owner events.Owner // audit this owner alone; empty means everybody

	Keys  func(context.Context, events.Owner) (Key, error) // nil: leaves are not recomputed
	Pool  *pgxpool.Pool                                    // nil: the log alone
	Chain Chain                                            // nil: no accounts
	// WhyNoKeys, WhyNoPool and WhyNoChain say why something is nil.
	WhyNoKeys, WhyNoPool, WhyNoChain string

	// Replicas, if any, are all read before the audit, which then reads from one that
	// is whole. Without them it reads wherever Log does.
	Replicas []Replica

	// Report is called with every finding as it is made.
	Report func(Finding)
	// Progress, if set, is called now and then with the sequence reached.
	Progress func(reached, through uint64)
	// Patience is how long the read models may take to catch up with the log, and a
	// node that is read by itself to give its next message; 0 means 30 s.
	Patience time.Duration
}

const defaultPatience = 30 * time.Second

// Run audits. It returns an error where it could not be carried through; what
// is wrong with what it read is findings.
func Run(ctx context.Context, cfg Config) (Summary, error) {
	if cfg.Log == nil {
		return Summary{}, errors.New("audit: no log")
	}
	if cfg.Report == nil {
		cfg.Report = func(Finding) {}
	}
	if cfg.Patience <= 0 {
		cfg.Patience = defaultPatience
	}
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
	through uint64
	at      projector.Vector // of each partition, what is checked; never beyond through
}

func (a *auditor) run(ctx context.Context) error {
	head, err := a.cfg.Log.Head(ctx)
	if err != nil {
		return err
	}
	a.through, a.at = head, projector.AllAt(head)
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
	a.report.summary.Through = a.through
	if err := a.replay(ctx, db); err != nil {
		return err
	}
	if db != nil {
		if err := a.compareReadModels(ctx, db); err != nil {
			return err
		}
	}
	if a.cfg.Owner != "" && a.fold.owners[a.cfg.Owner] == nil {
		a.report.incomplete("owner %s: up to sequence %d the log has no such owner", a.cfg.Owner, a.through)
	}
	return a.checkChain(ctx)
}

// align decides up to where the log is read: of each partition to the database's
// position, so that both are compared at the same moment.
func (a *auditor) align(ctx context.Context, db *snapshot, head uint64) error {
	newest, err := a.cfg.Log.Head(ctx) // the snapshot may hold what came after the first look
	if err != nil {
		return err
	}
	for _, m := range db.at.Joined() {
		of := ""
		if m.Partitions != events.AllPartitions {
			of = fmt.Sprintf(" of partitions %s", m.Partitions)
		}
		switch {
		case m.Seq > newest:
			a.report.add(Finding{Check: CheckSequence, Seq: m.Seq, Table: "checkpoint", Column: "seq", Detail: fmt.Sprintf(
				"the read models%s are at sequence %d, the log ends at %d: the log lost messages, or is not the one these tables were made from", of, m.Seq, newest)})
		case m.Seq < head:
			a.report.incomplete("sequences %d to %d%s: the read models do not hold them yet; is a projector running?", m.Seq+1, head, of)
		}
	}
	a.at = db.at.Capped(newest)
	a.through = a.at.Highest()
	return nil
}
