package anchorer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/gagliardetto/solana-go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/anchoring/commitment"
	"github.com/memory-ledger/ledger/anchoring/program"
	"github.com/memory-ledger/ledger/events"
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
		metrics: &metrics{sends: prometheus.NewCounter(prometheus.CounterOpts{})},
		flights: map[string]*flight{},
	}
	for i, f := range flights {
		f.signature = fmt.Sprint(i)
		d.flights[f.signature] = f
	}
	return d
}

// The same bytes are sent repeatedly, at intervals, until the chain reports a status. A
// transaction that an earlier anchorer recorded is sent only if the chain does not know
// it.
func TestWhatIsSentAndWhen(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		flight          flight
		sent, preflight bool
	}{
		"a new one":                           {flight{}, true, true},
		"just sent":                           {flight{sentAt: ago(2*time.Second - 1)}, false, false},
		"sent a while ago":                    {flight{sentAt: ago(2 * time.Second)}, true, true},
		"sent a while ago, and passed":        {flight{sentAt: ago(2 * time.Second), accepted: true, polled: true}, true, false},
		"there":                               {flight{sentAt: ago(time.Hour), polled: true, status: &chain.Status{}}, false, false},
		"refused":                             {flight{sentAt: ago(time.Hour), refused: errors.New("no")}, false, false},
		"an earlier one's":                    {flight{resumed: true}, false, false},
		"an earlier one's that nobody knows":  {flight{resumed: true, polled: true}, true, true},
		"an earlier one's that is there":      {flight{resumed: true, polled: true, status: &chain.Status{}}, false, false},
		"an earlier one's, sent a moment ago": {flight{resumed: true, polled: true, sentAt: ago(0)}, false, false},
	} {
		l := &letters{}
		must(t, sender(l, &now, &c.flight).transmit(t.Context()))
		if (l.sent == 1) != c.sent || l.preflight != c.preflight {
			t.Errorf("%s: sent %d times, with preflight %t", name, l.sent, l.preflight)
		}
		if c.sent && !c.flight.sentAt.Equal(now) {
			t.Errorf("%s: sent at %s", name, c.flight.sentAt)
		}
	}
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

// searched records the signatures for which the whole history was searched.
type searched struct {
	Chain
	old    []string
	status *chain.Status
}

func (s *searched) Statuses(_ context.Context, signatures []string, history bool) ([]*chain.Status, uint64, error) {
	if history {
		s.old = append(s.old, signatures...)
	}
	statuses := make([]*chain.Status, len(signatures))
	for i := range statuses {
		statuses[i] = s.status
	}
	return statuses, 1, nil
}

// The whole history is searched for a transaction that may have landed long ago, until it
// is found or was sent by this process.
func TestWhatIsLookedForInTheHistory(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	const block = 100
	fresh, last, past := &flight{}, &flight{}, &flight{}
	earlier, sent := &flight{resumed: true}, &flight{resumed: true, sentAt: now}
	s := &searched{}
	d := sender(s, &now, fresh, last, past, earlier, sent)
	for _, f := range []*flight{fresh, earlier, sent} {
		f.lastValid = block + 1
	}
	last.lastValid, past.lastValid = block, block-1
	look := func(want ...*flight) {
		t.Helper()
		s.old = nil
		must(t, d.poll(t.Context(), chain.Height{Block: block}))
		for i, f := range []*flight{fresh, last, past, earlier, sent} {
			if slices.Contains(s.old, f.signature) != slices.Contains(want, f) || f.searched != slices.Contains(want, f) {
				t.Errorf("flight %d: %+v; searched for %v", i, f, s.old)
			}
		}
	}
	look(past, earlier, sent)
	look(past, earlier)
	s.status = &chain.Status{}
	look(past, earlier)
	look(past)
}

// The owner whose instruction failed gets its own transaction from then on. No owner does
// if the authority lacked money, or if the transaction failed as a whole.
func TestWhoseInstructionFailed(t *testing.T) {
	t.Parallel()
	key, err := solana.NewRandomPrivateKey()
	must(t, err)
	s := signer{key: key, program: program.LocalID}
	owners := []*owner{cutOwner(1), cutOwner(2), cutOwner(3)}
	tx, err := s.sign(owners, chain.Blockhash{Hash: solana.Hash{1}})
	must(t, err)
	const forks = 6
	for name, c := range map[string]struct {
		failure error
		want    *owner
	}{
		"the first's":         {&program.InstructionError{Index: budgetInstructions, Custom: true, Code: forks}, owners[0]},
		"the last's":          {&program.InstructionError{Index: budgetInstructions + 2, Custom: true, Code: forks}, owners[2]},
		"nobody's":            {&program.InstructionError{Index: budgetInstructions + 3, Custom: true, Code: forks}, nil},
		"the budget's":        {&program.InstructionError{Index: budgetInstructions - 1, Reason: "InvalidInstructionData"}, nil},
		"the whole":           {&program.InstructionError{Index: -1, Reason: "BlockhashNotFound"}, nil},
		"the authority's":     {&program.InstructionError{Index: budgetInstructions, Custom: true, Code: 1}, nil},
		"of no understanding": {errors.New("failed"), nil},
	} {
		for _, landed := range []bool{false, true} {
			f := &flight{attempt: tx}
			if landed {
				f.status = &chain.Status{Err: c.failure}
			} else {
				f.refused = c.failure
			}
			got, known := f.culprit()
			if known != (c.want != nil) || known && got != c.want.key {
				t.Errorf("%s: %s, %t", name, got, known)
			}
		}
	}
}

// There is an alarm if the log can't explain the contents of an account. There is none if
// the account is merely ahead of the batch, or if the transaction did not land.
func TestWhatAnAccountLacks(t *testing.T) {
	t.Parallel()
	o := cutOwner(2)
	for i := range uint64(4) {
		must(t, o.leaf(&events.MemoryWritten{LeafIndex: i, LeafHash: events.Hash{byte(i)}}, time.Unix(1_700_000_000, 0)))
	}
	holds := func(size uint64) *commitment.Account { return &commitment.Account{Size: size, Root: [32]byte{9}} }
	for name, c := range map[string]struct {
		account   *commitment.Account
		succeeded bool
		why       error // nil: any other error
		alarm     bool
	}{
		"more than the log has":       {holds(5), false, errAhead, true},
		"another root":                {holds(2), true, errFork, true},
		"more than the batch":         {holds(3), true, nil, false},
		"all that the log has":        {holds(4), false, nil, false},
		"less, though it succeeded":   {holds(1), true, errLandedWithout, true},
		"nothing, though it did":      {nil, true, errLandedWithout, true},
		"less, and it did not land":   {holds(1), false, nil, false},
		"nothing, as it did not land": {nil, false, nil, false},
	} {
		why, alarm := lacking(c.account, o, c.succeeded)
		if alarm != c.alarm || c.why != nil && !errors.Is(why, c.why) || why == nil {
			t.Errorf("%s: %v, %t", name, why, alarm)
		}
	}
}

// If transaction after transaction fails, the pauses grow, up to a bound. During a pause
// nothing is cut or signed.
func TestAttemptsThatComeToNothingSlowDown(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	d := sender(nil, &now) // a nil chain: reading the balance would panic
	for n := range 40 {
		d.cameToNothing(errors.New("no"))
		rest := d.resting.Sub(now)
		switch {
		case n < 4:
			if !d.resting.IsZero() {
				t.Errorf("%d in a row: resting for %s", n+1, rest)
			}
			continue
		case n == 4 && rest != 2*time.Second, n > 13 && rest != 5*time.Minute:
			t.Errorf("%d in a row: resting for %s", n+1, rest)
		}
		now = d.resting
		must(t, d.launch(t.Context(), []*owner{cutOwner(1)}))
		now = now.Add(1)
	}
}
