package anchorer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/infra/testkit"
)

// restore replaces the log with one that holds its first messages, as a backup from that
// moment does, and replaces the database with an empty one. The chain stays as it is.
func (w *world) restore(to uint64) {
	w.t.Helper()
	old := w.stream
	w.mu.Lock()
	leaves := w.leaves
	w.leaves = map[events.Owner][]events.Hash{}
	w.mu.Unlock()
	w.otherLog()
	w.database = pgtest.Database(w.t)
	newest := map[string]uint64{}
	w.must(old.Read(w.t.Context(), eventlog.ReadConfig{To: to}, func(s eventlog.Slice) error {
		for _, r := range s.Records {
			subject, err := events.ParseSubject(r.Subject)
			if err != nil {
				return err
			}
			of := string(subject.Family) + " " + string(subject.Owner)
			seq, err := w.log.Append(w.t.Context(), eventlog.Append{
				Family: subject.Family, Owner: subject.Owner, Kind: subject.Kind, CommandID: r.CommandID, Expected: newest[of], Payload: r.Payload,
			})
			if err != nil || seq != r.Seq {
				return errors.Join(err, eventlog.ErrGap)
			}
			newest[of] = seq
			if subject.Family == events.FamilyLedger {
				w.mu.Lock()
				w.leaves[subject.Owner] = leaves[subject.Owner][:len(w.leaves[subject.Owner])+1]
				w.seqs[subject.Owner] = seq
				w.mu.Unlock()
			}
		}
		return nil
	}))
}

// seqOf returns the sequence of the nth event of a type in the log.
func (w *world) seqOf(kind events.Type, nth int) (seq uint64) {
	w.t.Helper()
	head, err := w.log.Head(w.t.Context())
	w.must(err)
	w.must(w.stream.Read(w.t.Context(), eventlog.ReadConfig{To: head}, func(s eventlog.Slice) error {
		for _, r := range s.Records {
			batch, err := events.DecodeBatch(r.Payload)
			if err != nil {
				return err
			}
			if batch[0].Type() == kind {
				if nth--; nth == 0 {
					seq = r.Seq
				}
			}
		}
		return nil
	}))
	if seq == 0 {
		w.t.Fatalf("the log has no %s", kind)
	}
	return seq
}

// anchors waits until the newest batch of an owner is confirmed with that many leaves. It
// then compares the batch with the account and the leaves.
func (w *world) anchors(key events.Owner, size int) {
	w.t.Helper()
	all := w.await("the log's leaves anchored", func(all map[events.Owner]*history) bool {
		h := all[key]
		return h != nil && len(h.confirmed) > 0 && h.confirmed[len(h.confirmed)-1].Size == uint64(size)
	})
	confirmed := all[key].confirmed[len(all[key].confirmed)-1]
	root := rootOf(w.leaves[key][:size])
	if held := w.held(key); confirmed.Root != root || held == nil || held.Size != uint64(size) || held.Root != [32]byte(root) {
		w.t.Errorf("confirmed %+v, the account holds %+v, the leaves give %s", confirmed, held, root)
	}
}

// The log is restored from a copy made before the newest commits. The anchorer finds
// these commits on the chain, wherever the copy ends.
func TestALogOfBeforeItsNewestCommit(t *testing.T) {
	t.Parallel()
	for _, last := range []events.Type{events.TypeMemoryWritten, events.TypeBatchCut, events.TypeBatchSubmitted} {
		t.Run(string(last), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, false)
			key := w.owners(1)[0]
			p := w.start(nil, nil)
			w.allAnchored()
			w.write(key, 1)
			w.anchors(key, 2)
			p.stop()
			sent := w.held(key).Count
			w.restore(w.seqOf(last, 2))
			w.start(nil, nil)
			w.anchors(key, 2)
			if count := w.held(key).Count; last == events.TypeBatchSubmitted && count != sent {
				t.Errorf("a transaction that had landed was sent again: %d commits, then %d", sent, count)
			}
			w.write(key, 1)
			w.anchors(key, 3)
		})
	}
}

// The log was copied before a leaf that the chain has a commit of. A different leaf takes
// its place. Nothing is confirmed for that owner until the owner's log is longer than the
// committed one. Readiness names the owner and the reason. Other owners are anchored
// meanwhile.
func TestALogOfBeforeACommittedLeaf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	key := w.owners(1)[0]
	p := w.start(nil, nil)
	w.allAnchored()
	w.write(key, 2)
	w.anchors(key, 3)
	p.stop()
	w.restore(w.seqOf(events.TypeMemoryWritten, 2))
	other := w.owners(1)[0]
	var late atomic.Int64
	p = w.start(nil, func(c *Config) { c.Now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) } })
	w.turns(p, program.ErrShrinks)
	w.anchors(other, 1)
	w.writeLeaf(key, events.Hash(sha256.Sum256([]byte("another third leaf"))))
	late.Add(int64(time.Hour))
	w.turns(p, program.ErrForks)
	if err := p.Ready(); !strings.Contains(err.Error(), string(key)) || !strings.Contains(err.Error(), "restored") {
		t.Errorf("readiness: %v", err)
	}
	w.write(key, 1)
	// If the anchorer tries before the fold has this leaf, the try fails like the one
	// before and doubles the backoff.
	for w.folded() < w.seqs[key] {
		runtime.Gosched()
	}
	late.Add(int64(time.Hour))
	w.anchors(key, 4)
	w.turns(p, nil)
}

// TestAlteredRowsAreNotSigned: an attacker who can write to the database can write to the
// tree cache and to the anchorer's own rows. The anchorer does not sign a false root,
// even if both hold the same one. It rebuilds the rows from the log.
func TestAlteredRowsAreNotSigned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	told := newLines()
	waiting := w.start(nil, func(c *Config) { c.MaxWait, c.Logger = time.Hour, slog.New(told) })
	key := logtest.Owner()
	w.write(key, 2)
	pool := w.pool()
	testkit.Await(t, "the leaves are folded", func() bool {
		var size int
		_ = pool.QueryRow(t.Context(), `SELECT unanchored FROM ledger_anchor.owners WHERE owner = $1`, string(key)).Scan(&size)
		return size == 2
	})

	first, second := sha256.Sum256([]byte("forged")), sha256.Sum256([]byte("forged, too"))
	w.mu.Lock()
	genuine, forged := w.leaves[key], []events.Hash{first, second}
	w.leaves[key] = forged
	w.mu.Unlock()
	o := newOwner(key)
	for i := range forged {
		w.must(o.leaf(&events.MemoryWritten{LeafIndex: uint64(i), LeafHash: forged[i]}, time.Unix(0, 0)))
	}
	w.must(errorOf(pool.Exec(t.Context(), `UPDATE ledger_anchor.owners SET state = $2, waiting = 'epoch' WHERE owner = $1`, string(key), encode(o))))
	testkit.Await(t, "the row is found altered", func() bool {
		if held := w.held(key); held != nil {
			t.Fatalf("%x at %d leaves was signed, the log has %s", held.Root, held.Size, rootOf(genuine))
		}
		return len(told.of(slog.LevelError, "the state is rebuilt")) > 0
	})
	waiting.stop()

	w.mu.Lock()
	w.leaves[key] = genuine
	w.mu.Unlock()
	w.start(nil, nil)
	w.allAnchored()
}

// letters is a chain that counts sends and returns a preset answer.
type letters struct {
	Chain
	sent      int
	preflight bool // of the last send
	answer    error
}

func (l *letters) Send(_ context.Context, _ []byte, preflight bool) error {
	l.sent, l.preflight = l.sent+1, preflight
	return l.answer
}

// sender is a driver without a log or a database, with a clock that stands still.
func sender(c Chain, now *time.Time, flights ...*flight) *driver {
	d := &driver{
		cfg:     &Config{Chain: c, ResendEvery: 2 * time.Second, Now: func() time.Time { return *now }, Logger: slog.New(slog.DiscardHandler)},
		status:  &status{},
		flights: map[string]*flight{},
	}
	for i, f := range flights {
		f.Signature = fmt.Sprint(i)
		d.flights[f.Signature] = f
	}
	return d
}

// A refusal counts against a transaction only if it is permanent.
func TestWhatARefusalMeans(t *testing.T) {
	t.Parallel()
	now, limited := time.Unix(1_700_000_000, 0), &chain.RPCError{Code: 429, Message: "Too many requests"}
	for name, c := range map[string]struct {
		answer          error
		refused         bool
		funds, chainErr error
		sent            int // of two transactions
	}{
		"none":                     {nil, false, nil, nil, 2},
		"the program's":            {&program.InstructionError{Index: 3, Custom: true, Code: 6}, true, nil, nil, 2},
		"the runtime's":            {&program.InstructionError{Index: 3, Reason: "ProgramFailedToComplete"}, true, nil, nil, 2},
		"no money for the rent":    {&program.InstructionError{Index: 3, Custom: true, Code: 1}, false, errUnfunded, nil, 2},
		"no money for the fee":     {&program.InstructionError{Index: -1, Reason: "InsufficientFundsForFee"}, false, errUnfunded, nil, 2},
		"the node is behind":       {&program.InstructionError{Index: -1, Reason: "BlockhashNotFound"}, false, nil, nil, 2},
		"something of the node":    {limited, false, nil, limited, 1},
		"the chain is not reached": {fmt.Errorf("%w: refused", chain.ErrUnreachable), false, nil, chain.ErrUnreachable, 1},
	} {
		l := &letters{answer: c.answer}
		d := sender(l, &now, &flight{}, &flight{})
		must(t, d.transmit(t.Context()))
		if !errors.Is(d.status.funds, c.funds) || !errors.Is(d.status.chain, c.chainErr) || l.sent != c.sent {
			t.Errorf("%s: funds %v, chain %v, %d sent", name, d.status.funds, d.status.chain, l.sent)
		}
		for _, f := range d.flights {
			if (f.refused != nil) != c.refused || f.accepted != (c.answer == nil) {
				t.Errorf("%s: refused %v, accepted %t", name, f.refused, f.accepted)
			}
		}
		f := d.flights["0"]
		for range 5 {
			must(t, d.settle(t.Context(), f, false, nil))
		}
		if !errors.Is(d.stalled, errStalled) || c.sent == 2 && c.answer != nil && !errors.Is(d.stalled, c.answer) {
			t.Errorf("%s: readiness tells as the cause: %v", name, d.stalled)
		}
	}
}
