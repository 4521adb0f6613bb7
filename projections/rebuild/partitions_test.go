package rebuild_test

import (
	"github.com/memory-ledger/ledger/events"

	"fmt"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/rebuild"
)

var lower, upper = events.Partitions{First: 0, End: 128}, events.Partitions{First: 128, End: 256}

func (s *stage) at() projector.Checkpoint {
	s.t.Helper()
	c, err := projector.ReadCheckpoint(s.t.Context(), s.pool)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *stage) audited() {
	s.t.Helper()
	cfg := audit.Config{Log: s.config().Log.(audit.Log), Pool: s.pool, Patience: 50 * time.Millisecond}
	cfg.Report = func(f audit.Finding) { s.t.Errorf("audit: %v", f) }
	if _, err := audit.Run(s.t.Context(), cfg); err != nil {
		s.t.Error(err)
	}
}

// TestSwapsUnderTwoProjectors: both projectors write all the time, at different
// sequences. Comparing, auditing and swapping need no moment at which they agree.
func TestSwapsUnderTwoProjectors(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	s := newStage(t, lower, upper)
	actors := s.fill(6, 100)
	writes := s.load(6, func() {
		for _, projection := range []string{"", "memories", "", "tree", ""} {
			before := s.generation()
			cfg := s.config()
			cfg.Projection, cfg.Rows = projection, true
			cfg.Report = func(d rebuild.Difference) { t.Errorf("difference: %v", d) }
			result := run(t, cfg)
			if !result.Swapped || result.Differences != 0 || result.Held > 2*time.Second {
				t.Errorf("%+v", result)
			}
			if s.generation() == before {
				t.Errorf("rebuild of %q: the same generation as before", projection)
			}
			s.audited()
		}
	})
	s.caughtUp()
	for _, a := range actors {
		if err := s.check(a); err != nil {
			t.Error(err)
		}
	}
	if n := len(s.at().Vector); n != 2 || s.schemas() != 1 {
		t.Errorf("%d rows and %d schemas are left", n, s.schemas())
	}
	s.audited()
	t.Logf("%d writes and reads meanwhile", writes)
}

// TestSwapsWhileOneHalfStandsStill: the new tables hold each half up to the position of
// the old ones, and the stopped half continues from there.
func TestSwapsWhileOneHalfStandsStill(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	s := newStage(t, lower)
	stop := s.projector(upper)
	s.fill(10, 20)
	stood := s.at()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	var actors []*fixture.Actor
	for range 300 { // more than is near
		a := fixture.NewActor()
		actors = append(actors, a)
		a.AppendMemory(t, s.log, `{}`)
	}
	head, err := s.log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	fixture.Eventually(t, 2*time.Minute, func() error {
		if at := s.at(); at.At(0) != head {
			return fmt.Errorf("at %s of %d", at, head)
		}
		return nil
	})
	for _, projection := range []string{"", "grants", ""} {
		cfg := s.config()
		cfg.Projection, cfg.Rows = projection, true
		cfg.Report = func(d rebuild.Difference) { t.Errorf("difference: %v", d) }
		result := run(t, cfg)
		if at := s.at(); !result.Swapped || at.At(0) != head || at.At(255) != stood.At(255) || result.Position != stood.At(255) {
			t.Errorf("%+v, at %s, the upper half stood at %s", result, at, stood)
		}
		s.audited()
	}
	s.projector(upper)
	s.caughtUp()
	for _, a := range actors {
		if err := s.check(a); err != nil {
			t.Error(err)
		}
	}
	s.audited()
}
