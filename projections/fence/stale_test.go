package fence_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/batches"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/world"
	"github.com/memory-ledger/ledger/projections/memories"
	"github.com/memory-ledger/ledger/projections/runner"
	"github.com/memory-ledger/ledger/projections/sessions"
)

// TestReadsAreNeverStale: many owners write and read at once, each through a
// replica that it did not write through, while connections are cut.
func TestReadsAreNeverStale(t *testing.T) {
	t.Parallel()
	_, pool := world.Database(t)
	log := world.NewLog(t)
	r, err := runner.New(runner.Config{Pool: pool, Log: log, Logger: world.Quiet(), MinBackoff: time.Millisecond, MaxBackoff: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	world.Running(t, r.Run)
	replicas := make([]*fence.Fence, 3)
	for i := range replicas {
		replicas[i] = newFence(t, pool, log)
		if i > 0 { // the first one has nobody to wake it
			world.Running(t, replicas[i].Run)
		}
	}
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			a := world.NewActor()
			for round := range 25 {
				f := replicas[(i+round)%len(replicas)]
				written, _ := a.AppendMemory(t, log, `{}`)
				if err := f.WaitOwner(t.Context(), a.Owner); err != nil {
					t.Error(err)
					return
				}
				if _, found, err := memories.ByID(t.Context(), pool, a.Owner, written.MemoryID); err != nil || !found {
					t.Errorf("owner %d, round %d: own write is not there: %v", i, round, err)
				}
				readBatch(t, a, log, f, pool)
				readToken(t, a, log, f, pool)
			}
		})
	}
	cut := time.NewTicker(100 * time.Millisecond)
	defer cut.Stop()
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		case <-cut.C:
			if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name IN ('memory-ledger fence', 'memory-ledger projector') AND datname = current_database()`); err != nil {
				t.Error(err)
			}
		}
	}
}

// readBatch: a fact about the chain, which the owner did not write.
func readBatch(t *testing.T, a *world.Actor, log *world.Log, f *fence.Fence, pool *pgxpool.Pool) {
	t.Helper()
	id := world.UUID()
	a.Append(t, log, &events.BatchCut{BatchID: id, Size: a.Leaves()})
	if err := f.WaitOwner(t.Context(), a.Owner, fence.WithChain()); err != nil {
		t.Error(err)
	}
	if _, found, err := batches.ByID(t.Context(), pool, id); err != nil || !found {
		t.Errorf("the batch is not there: %v", err)
	}
}

// readToken: whoever brings a token is not known, so everything must be.
func readToken(t *testing.T, a *world.Actor, log *world.Log, f *fence.Fence, pool *pgxpool.Pool) {
	t.Helper()
	id := world.UUID()
	hash := world.Hash(id)
	a.Append(t, log, &events.SessionIssued{SessionID: id, Audience: events.AudienceExtension, TokenHash: &hash, ExpiresAt: events.At(time.Now())})
	if err := f.WaitAll(t.Context()); err != nil {
		t.Error(err)
	}
	if _, found, err := sessions.ByTokenHash(t.Context(), pool, hash); err != nil || !found {
		t.Errorf("the session is not there: %v", err)
	}
}
