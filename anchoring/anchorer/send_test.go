package anchorer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/program"
)

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
		f.signature = fmt.Sprint(i)
		d.flights[f.signature] = f
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
		"it has come already":      {&program.InstructionError{Index: -1, Reason: "AlreadyProcessed"}, false, nil, nil, 2},
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
