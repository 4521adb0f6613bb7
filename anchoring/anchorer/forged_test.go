package anchorer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/testkit"
)

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
	now := time.Unix(1_700_000_000, 0)
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
		"something of the node":    {errors.New("rate limit"), false, nil, nil, 2},
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
	}
}
