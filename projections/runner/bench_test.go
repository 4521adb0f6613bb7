package runner_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/internal/world"
	"github.com/memory-ledger/ledger/projections/runner"
)

const (
	benchOwners   = 1000
	benchMemories = 100_000
)

// BenchmarkReplay replays 100,000 memories of 1,000 owners into empty read
// models, and copies the same memories' rows in by bare COPY, in turns. The
// ratio is the share of COPY's speed that a replay reaches.
func BenchmarkReplay(b *testing.B) {
	log := world.NewLog(b)
	rows := fill(b, log)
	url := pgtest.Database(b)
	var schemas atomic.Int64
	fresh := func() *pgxpool.Pool { return world.Pool(b, url, fmt.Sprintf("bench_%d", schemas.Add(1))) }
	var replaying, copying time.Duration
	for b.Loop() {
		replaying += timeReplay(b, log, fresh())
		copying += timeCopy(b, rows, fresh())
	}
	rounds := float64(b.N)
	b.ReportMetric(benchMemories*rounds/replaying.Seconds(), "replayed/s")
	b.ReportMetric(benchMemories*rounds/copying.Seconds(), "copied/s")
	b.ReportMetric(copying.Seconds()/replaying.Seconds(), "of-copy")
}

// fill writes the log and returns the rows that come of it.
func fill(b testing.TB, log *world.Log) [][]any {
	actors := make([]*world.Actor, benchOwners)
	for i := range actors {
		actors[i] = world.NumberedActor(i)
	}
	messages := make([]world.Message, benchMemories)
	rows := make([][]any, benchMemories)
	chance := rand.New(rand.NewPCG(1, 2))
	sealed := []byte(strings.Repeat("ciphertext ", 25))
	for i := range messages {
		a := actors[chance.IntN(benchOwners)]
		m := a.Memory(`{"source":"bench","tags":["one","two"],"title":"a memory among many"}`)
		m.Sealed = sealed
		messages[i] = a.Say(m)
		id, _ := column.ParseUUID(m.MemoryID)
		rows[i] = []any{string(a.Owner), int64(m.LeafIndex), id[:], m.LeafHash[:], string(m.Metadata), m.Sealed,
			messages[i].Events[0].Time.Time(), nil, int64(i + 1)}
	}
	log.Publish(b, messages...)
	return rows
}

func timeReplay(b testing.TB, log *world.Log, pool *pgxpool.Pool) time.Duration {
	done := make(chan struct{})
	r, err := runner.New(runner.Config{Pool: pool, Log: log, Applied: func(position uint64) {
		if position == benchMemories {
			close(done)
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	stop := world.Running(b, r.Run)
	<-done
	took := time.Since(start)
	if err := stop(); err != nil {
		b.Fatal(err)
	}
	return took
}

func timeCopy(b testing.TB, rows [][]any, pool *pgxpool.Pool) time.Duration {
	ctx := context.Background()
	start := time.Now()
	n, err := pool.CopyFrom(ctx, pgx.Identifier{"memories"},
		[]string{"owner", "leaf_index", "id", "leaf_hash", "metadata", "sealed", "created_at", "idempotency_key_hash", "seq"},
		pgx.CopyFromRows(rows))
	if err != nil || n != benchMemories {
		b.Fatal(n, err)
	}
	return time.Since(start)
}
