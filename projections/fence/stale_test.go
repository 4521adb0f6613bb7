package fence_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/readmodel/sessions"
)

// TestReadsAreNeverStale: many owners write and read at the same time, each reads through
// a replica that it did not write through, while connections are cut.
func TestReadsAreNeverStale(t *testing.T) {
	t.Parallel()
	log := fixture.NewLog(t)
	_, pool := fixture.Database(t)
	projectorOf(t, pool, log)
	replicas := replicasOf(t, pool, log)
	var all sync.WaitGroup
	read := make(chan struct{})
	for i := range 12 {
		all.Go(func() {
			a := fixture.NewActor()
			for round := 0; round < 25 && !t.Failed(); round++ {
				readAll(t, a, log, replicas[(i+round)%len(replicas)], pool)
				read <- struct{}{}
			}
		})
	}
	go func() { all.Wait(); close(read) }()
	// The connections are cut after a number of reads, not after a time. So readers make
	// progress between two cuts, however slow the machine.
	for rounds := 1; ; rounds++ {
		if _, more := <-read; !more {
			return
		}
		if rounds%8 != 0 {
			continue
		}
		if _, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE application_name IN ('memory-ledger fence', 'memory-ledger projector') AND datname = current_database()`); err != nil {
			t.Error(err)
		}
	}
}

// replicasOf makes several fences, as services on several machines would.
func replicasOf(t *testing.T, pool *pgxpool.Pool, log eventlog.Reader) []*fence.Fence {
	t.Helper()
	replicas := make([]*fence.Fence, 3)
	for i := range replicas {
		replicas[i] = newFence(t, pool, log)
		if i > 0 { // the first one has no listener to wake it
			fixture.Running(t, replicas[i].Run)
		}
	}
	return replicas
}

// readAll lets an owner write an event of every kind, and reads it.
func readAll(t *testing.T, a *fixture.Actor, log *fixture.Log, f *fence.Fence, pool *pgxpool.Pool) {
	t.Helper()
	readMemory(t, a, log, f, pool)
	readBatch(t, a, log, f, pool)
	readToken(t, a, log, f, pool)
}

// readMemory writes a memory and reads it.
func readMemory(t *testing.T, a *fixture.Actor, log *fixture.Log, f *fence.Fence, pool *pgxpool.Pool) {
	t.Helper()
	written, seq := a.AppendMemory(t, log, `{}`)
	if err := f.WaitOwner(t.Context(), a.Owner); err != nil {
		t.Error(err)
	}
	if _, found, err := memories.ByID(t.Context(), pool, a.Owner, written.MemoryID); err != nil || !found {
		t.Errorf("own write at %d is not there: %v", seq, err)
	}
}

// readBatch reads a fact about the chain, which the owner did not write.
func readBatch(t *testing.T, a *fixture.Actor, log *fixture.Log, f *fence.Fence, pool *pgxpool.Pool) {
	t.Helper()
	id := fixture.UUID()
	a.Append(t, log, &events.BatchCut{BatchID: id, Size: a.Leaves()})
	if err := f.WaitOwner(t.Context(), a.Owner); err != nil {
		t.Error(err)
	}
	if _, found, err := batches.ByID(t.Context(), pool, id); err != nil || !found {
		t.Errorf("the batch is not there: %v", err)
	}
}

// readToken reads a session by its token. The owner of a token is unknown, so the read
// waits for all owners.
func readToken(t *testing.T, a *fixture.Actor, log *fixture.Log, f *fence.Fence, pool *pgxpool.Pool) {
	t.Helper()
	id := fixture.UUID()
	hash := fixture.Hash(id)
	a.Append(t, log, &events.SessionIssued{SessionID: id, Audience: events.AudienceExtension, TokenHash: &hash, ExpiresAt: events.At(time.Now())})
	if err := f.WaitAll(t.Context()); err != nil {
		t.Error(err)
	}
	if _, found, err := sessions.ByTokenHash(t.Context(), pool, hash); err != nil || !found {
		t.Errorf("the session is not there: %v", err)
	}
}

func projectorOf(t *testing.T, pool *pgxpool.Pool, log projector.Log) (stop func() error) {
	t.Helper()
	r, err := projector.New(projector.Config{
		Projections: readmodel.All(),
		Pool:        pool, Log: log, Logger: fixture.Quiet(), MinBackoff: time.Millisecond, MaxBackoff: 50 * time.Millisecond,
	})
	must(t, err)
	return fixture.Running(t, r.Run)
}
