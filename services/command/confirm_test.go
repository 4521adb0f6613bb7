package command_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/services/command"
)

// altered is a read model that was tampered with.
type altered struct {
	*model
	alter func(*command.State)
}

func (a altered) Load(ctx context.Context, owner events.Owner) (*command.State, error) {
	state, err := a.model.Load(ctx, owner)
	a.alter(state)
	return state, err
}

// TestAnAlteredReadModelDecidesNothing: on a wrong number of leaves, or a wrong version,
// nothing is appended. The log would keep it for good.
func TestAnAlteredReadModelDecidesNothing(t *testing.T) {
	t.Parallel()
	log := openLog(t)
	mint := func() command.Command {
		return &command.MintGrant{GrantID: newID(), Kind: events.GrantCase, ExpiresAt: events.At(time.Now().Add(time.Hour)), MaxUses: 1}
	}
	for _, ends := range []struct {
		name string
		with []command.Command
	}{
		{"a memory", []command.Command{write(1), mint(), write(2)}},
		{"a grant", []command.Command{write(1), write(2), mint()}},
		{"a grant, with no memory", []command.Command{mint(), mint(), mint()}},
	} {
		owner := logtest.Owner()
		x := newExecutor(t, log)
		for _, c := range ends.with {
			must(t, x.Execute(t.Context(), owner, c))
		}
		m := &model{log: log, batches: map[events.Owner][]batch{}}
		m.advance(t, owner, len(ends.with))
		for name, c := range map[string]struct {
			alter func(*command.State)
			good  bool
		}{
			"nothing":           {func(*command.State) {}, true},
			"more leaves":       {func(s *command.State) { s.Leaves += 3 }, false},
			"fewer leaves":      {func(s *command.State) { s.Leaves /= 2 }, len(leavesOf(t, log, owner)) == 0},
			"a lower version":   {func(s *command.State) { s.Version-- }, false},
			"a higher version":  {func(s *command.State) { s.Version++ }, false},
			"a later sequence":  {func(s *command.State) { s.Seq += 1000 }, false},
			"an older sequence": {func(s *command.State) { s.Seq, s.Version = s.Seq-1, s.Version-1 }, true}, // the tail is read
			"a lost message":    {func(s *command.State) { s.Seq, s.Version = s.Seq-1, s.Version-2 }, false},
			"all but leaves":    {func(s *command.State) { s.Seq, s.Version, s.Leaves = 0, 0, 7 }, len(leavesOf(t, log, owner)) > 0},
		} {
			x := newExecutorOn(t, log, altered{m, c.alter})
			// Not a write, which would look for its key in the log below.
			_, err := x.Standing(t.Context(), owner)
			if c.good != (err == nil) || !c.good && !errors.Is(err, eventlog.ErrContradiction) {
				t.Errorf("ends with %s, %s altered: %v", ends.name, name, err)
			}
			if !c.good && x.Execute(t.Context(), owner, write(9)) == nil {
				t.Errorf("ends with %s, %s altered: a write was stored", ends.name, name)
			}
		}
		if err := newExecutor(t, log).Execute(t.Context(), owner, write(3)); err != nil {
			t.Error(err)
		}
		leavesOf(t, log, owner)
	}
}

// TestAnInventedOwnerDecidesNothing: the read model has an owner that the log does not
// know.
func TestAnInventedOwnerDecidesNothing(t *testing.T) {
	t.Parallel()
	log, owner := openLog(t), logtest.Owner()
	for name, alter := range map[string]func(*command.State){
		"leaves":   func(s *command.State) { s.Leaves = 2 },
		"versions": func(s *command.State) { s.Version = 2 },
		"messages": func(s *command.State) { s.Seq = 2 },
	} {
		m := altered{&model{log: log, batches: map[events.Owner][]batch{}}, alter}
		if err := newExecutorOn(t, log, m).Execute(t.Context(), owner, write(1)); !errors.Is(err, eventlog.ErrContradiction) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if written := leavesOf(t, log, owner); len(written) > 0 {
		t.Errorf("%d leaves were stored", len(written))
	}
}
