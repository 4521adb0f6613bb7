package projector_test

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

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
)

const (
	benchOwners   = 1000
	benchMemories = 100_000
)

// BenchmarkReplay replays 100,000 memories of 1,000 owners into empty read models, and
// copies the same memories' rows with plain COPY, in turns. The metric of-copy is a
// replay's speed as a share of COPY's speed.
func BenchmarkReplay(b *testing.B) {
	log := fixture.NewLog(b)
	rows := fill(b, log)
	url := fixture.RunDatabase(b)
	var schemas atomic.Int64
	fresh := func() *pgxpool.Pool { return fixture.Pool(b, url, fmt.Sprintf("bench_%d", schemas.Add(1))) }
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

// benchRow is a memory's row without the fields that are equal in all rows. It holds no
// pointers, so that a hundred thousand rows cost the garbage collector nothing.
type benchRow struct {
	owner, leafIndex int64
	id               column.UUID
	hash             events.Hash
	at               int64
}

const benchMetadata = `{"source":"bench","tags":["one","two"],"title":"a memory among many"}`

var benchSealed = []byte(strings.Repeat("ciphertext ", 25))

// fill writes the log and returns the rows that the log must produce.
func fill(b testing.TB, log *fixture.Log) []benchRow {
	actors := make([]*fixture.Actor, benchOwners)
	for i := range actors {
		actors[i] = fixture.NumberedActor(i)
	}
	chance := rand.New(rand.NewPCG(1, 2))
	rows := make([]benchRow, benchMemories)
	for at := 0; at < benchMemories; {
		var messages []fixture.Message
		for ; len(messages) < 1000; at++ {
			owner := chance.IntN(benchOwners)
			m := actors[owner].Memory(benchMetadata)
			m.Sealed = benchSealed
			message := actors[owner].Say(m)
			messages = append(messages, message)
			id, _ := column.ParseUUID(m.MemoryID)
			rows[at] = benchRow{int64(owner), int64(m.LeafIndex), id, m.LeafHash, message.Events[0].Time.Time().UnixMilli()}
		}
		log.Publish(b, messages...)
	}
	return rows
}

func timeReplay(b testing.TB, log *fixture.Log, pool *pgxpool.Pool) time.Duration {
	done := make(chan struct{})
	r, err := projector.New(projector.Config{Projections: readmodel.All(), Pool: pool, Log: log, Logger: fixture.Quiet(), Applied: func(position uint64) {
		if position == benchMemories {
			close(done)
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	stop := fixture.Running(b, r.Run)
	<-done
	took := time.Since(start)
	if err := stop(); err != nil {
		b.Fatal(err)
	}
	return took
}

func timeCopy(b testing.TB, rows []benchRow, pool *pgxpool.Pool) time.Duration {
	owners := make([]string, benchOwners)
	for i := range owners {
		owners[i] = string(fixture.NumberedActor(i).Owner)
	}
	start := time.Now()
	n, err := pool.CopyFrom(context.Background(), pgx.Identifier{"memories"},
		[]string{"owner", "leaf_index", "id", "leaf_hash", "metadata", "sealed", "created_at", "idempotency_key_hash", "seq"},
		pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
			r := &rows[i]
			return []any{owners[r.owner], r.leafIndex, r.id[:], r.hash[:], benchMetadata, benchSealed, time.UnixMilli(r.at), nil, int64(i + 1)}, nil
		}))
	if err != nil || n != benchMemories {
		b.Fatal(n, err)
	}
	return time.Since(start)
}
