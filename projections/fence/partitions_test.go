package fence_test

import (
	"github.com/memory-ledger/ledger/events"

	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
)

var lower, upper = events.Partitions{First: 0, End: 128}, events.Partitions{First: 128, End: 256}

// actorIn makes an owner in some partitions.
func actorIn(run events.Partitions) *fixture.Actor {
	for {
		if a := fixture.NewActor(); run.Has(events.PartitionOf(a.Owner)) {
			return a
		}
	}
}

func projectorOf(t *testing.T, pool *pgxpool.Pool, log projector.Log, run events.Partitions) (stop func() error) {
	t.Helper()
	r, err := projector.New(projector.Config{
		Projections: readmodel.All(),
		Pool:        pool, Log: log, Partitions: run, Logger: fixture.Quiet(), MinBackoff: time.Millisecond, MaxBackoff: 50 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return fixture.Running(t, r.Run)
}

// TestOneHalfStandsStill: owners in the active half are served. Owners in the other half
// wait, and so do waits for all owners.
func TestOneHalfStandsStill(t *testing.T) {
	t.Parallel()
	for _, listening := range []bool{true, false} {
		t.Run(fmt.Sprintf("listening %v", listening), func(t *testing.T) {
			t.Parallel()
			_, pool := fixture.Database(t)
			log := fixture.NewLog(t)
			// The timeout is long enough to read the log's head, even on a busy machine.
			patient, hasty := newFence(t, pool, log), newFence(t, pool, log, func(o *fence.Options) { o.Timeout = time.Second })
			if listening {
				fixture.Running(t, patient.Run)
				fixture.Running(t, hasty.Run)
			}
			a, b := actorIn(lower), actorIn(upper)
			projectorOf(t, pool, log, lower)
			stop := projectorOf(t, pool, log, upper)
			both := func() {
				t.Helper()
				a.AppendMemory(t, log, `{}`)
				b.AppendMemory(t, log, `{}`)
			}
			both()
			for name, err := range map[string]error{
				"all": patient.WaitAll(t.Context()), "lower": patient.WaitOwner(t.Context(), a.Owner), "upper": patient.WaitOwner(t.Context(), b.Owner),
			} {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			both()
			for range 20 {
				readMemory(t, a, log, patient, pool) // in the active half
			}
			if head, err := patient.WaitOwnerHead(t.Context(), a.Owner); err != nil || head.Known() {
				t.Errorf("the read models hold the whole log up to %d, %v", head, err)
			}
			var group sync.WaitGroup
			for name, wait := range map[string]func() error{
				"all":        func() error { return hasty.WaitAll(t.Context()) },
				"upper":      func() error { return hasty.WaitOwner(t.Context(), b.Owner) },
				"a sequence": func() error { return hasty.Wait(t.Context(), 4) },
			} {
				group.Go(func() {
					if err := wait(); !errors.Is(err, fence.ErrBehind) {
						t.Errorf("%s, which stands still: %v", name, err)
					}
				})
			}
			group.Wait()
			waits := make(chan error, 2)
			go func() { waits <- patient.WaitAll(t.Context()) }()
			go func() { waits <- patient.WaitOwner(t.Context(), b.Owner) }()
			projectorOf(t, pool, log, upper)
			for range cap(waits) {
				if err := <-waits; err != nil {
					t.Errorf("when it goes on: %v", err)
				}
			}
		})
	}
}

// TestReadsAreNeverStaleWhileDividedAnew: projectors of other partitions take over
// repeatedly while owners write and read at replicas.
func TestReadsAreNeverStaleWhileDividedAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	_, pool := fixture.Database(t)
	log := fixture.NewLog(t)
	replicas := replicasOf(t, pool, log, nil)
	divisions := [][]events.Partitions{{events.AllPartitions}, {lower, upper}, {{First: 0, End: 64}, {First: 64, End: 192}, {First: 192, End: 256}}}
	start := func(division []events.Partitions) (stop func()) {
		stops := make([]func() error, len(division))
		for i, run := range division {
			stops[i] = projectorOf(t, pool, log, run)
		}
		return func() {
			for _, stop := range stops {
				if err := stop(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	ctx, enough := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 8 {
		a := actorIn(events.Partitions{First: 32 * i, End: 32*i + 32})
		all.Go(func() {
			for round := 0; ctx.Err() == nil && !t.Failed(); round++ {
				readAll(t, a, log, replicas[(i+round)%len(replicas)], pool)
			}
		})
	}
	for round := range 9 {
		stop := start(divisions[round%len(divisions)])
		head, err := log.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := replicas[1].Wait(t.Context(), head+50); err != nil {
			t.Fatal(err)
		}
		stop()
	}
	enough()
	start(divisions[0]) // for readers that still wait
	all.Wait()
}
