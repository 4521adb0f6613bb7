package anchorer

import (
	"crypto/sha256"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
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
