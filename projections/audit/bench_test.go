package audit_test

import (
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/rebuild"
	"github.com/memory-ledger/ledger/projections/schema"
)

// BenchmarkRebuildAndVerify fills a log with memories of 1,000 owners, rebuilds the read
// models from it (replay, indexes, compare, swap), verifies everything once, and copies
// the same rows with plain COPY, from memory, into tables with the same keys. EVENTS sets
// the number of memories; the default is 100,000.
func BenchmarkRebuildAndVerify(b *testing.B) {
	n := 100_000
	if text := os.Getenv("EVENTS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	log := fixture.NewLog(b)
	fillLog(b, log, n)
	pool := fixture.Pool(b, fixture.RunDatabase(b), schema.Live)
	var rebuilding, verifying, copying time.Duration
	var most uint64
	rebuilt := func() {
		b.Helper()
		result, err := rebuild.Run(b.Context(), rebuild.Config{Pool: emptied(b, pool), Log: replayed(log), Force: true})
		if err != nil || result.Position != uint64(n) {
			b.Fatalf("%+v, %v", result, err)
		}
	}
	rebuilt() // the first rebuild has nothing to compare: the live tables were empty
	for b.Loop() {
		start := time.Now()
		rebuilt()
		rebuilding += time.Since(start)
		start = time.Now()
		peak := watchHeap(func() {
			summary, err := audit.Run(b.Context(), audit.Config{Log: replayed(log), Pool: pool, Report: func(f audit.Finding) { b.Error(f) }})
			if err != nil || summary.Rows["memories"] != n {
				b.Fatalf("%+v, %v", summary, err)
			}
		})
		verifying, most = verifying+time.Since(start), max(most, peak)
		copying += copyRows(b, pool)
	}
	events := float64(n) * float64(b.N)
	b.ReportMetric(events/rebuilding.Seconds(), "rebuilt/s")
	b.ReportMetric(events/verifying.Seconds(), "verified/s")
	b.ReportMetric(events/copying.Seconds(), "copied/s")
	b.ReportMetric(copying.Seconds()/rebuilding.Seconds(), "rebuild-of-copy")
	b.ReportMetric(copying.Seconds()/verifying.Seconds(), "verify-of-copy")
	b.ReportMetric(float64(most)/(1<<20), "verify-heap-MiB")
}

// replayed returns the log as a local run's tools read it. With LOG_READ=direct it
// returns the log as tools read it that have no permission to make consumers.
func replayed(log *fixture.Log) rebuild.Log {
	stream := log.Log.(*eventlog.JetStream)
	if os.Getenv("LOG_READ") == "direct" {
		return stream.Direct()
	}
	return stream.Bulk()
}

func fillLog(b *testing.B, log *fixture.Log, n int) {
	b.Helper()
	actors := make([]*fixture.Actor, 1000)
	for i := range actors {
		actors[i] = fixture.NumberedActor(i)
	}
	chance := rand.New(rand.NewPCG(1, 2))
	ciphertext := rand.NewChaCha8([32]byte{3}) // can't be compressed
	for done := 0; done < n; {
		var messages []fixture.Message
		for ; len(messages) < 1000 && done < n; done++ {
			a := actors[chance.IntN(len(actors))]
			m := a.Memory(`{"source":"bench","tags":["one","two"],"title":"a memory among many"}`)
			m.Sealed = make([]byte, 275)
			_, _ = ciphertext.Read(m.Sealed)
			messages = append(messages, a.Say(m))
		}
		log.Publish(b, messages...)
	}
}

// emptied empties the checkpoint, as if it were damaged, so that the rebuild reads to the
// end of the log.
func emptied(b *testing.B, pool *pgxpool.Pool) *pgxpool.Pool {
	b.Helper()
	if _, err := pool.Exec(b.Context(), `TRUNCATE checkpoint`); err != nil {
		b.Fatal(err)
	}
	return pool
}

// watchHeap returns the peak heap in use while f ran.
func watchHeap(f func()) uint64 {
	var most atomic.Uint64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapInuse))
			select {
			case <-ticker.C:
			case <-stop:
				return
			}
		}
	}()
	f()
	close(stop)
	<-stopped
	return most.Load()
}

// copyRows times a plain COPY of the rows into fresh tables. It copies the memories in
// log order, as a plain replay would write them. A rebuild sorts the rows, to store each
// owner's rows side by side. A COPY in that order would get the sorting for free.
func copyRows(b *testing.B, pool *pgxpool.Pool) time.Duration {
	b.Helper()
	var took time.Duration
	for _, table := range []string{"memories", "owners", "tiles", "body_pages"} {
		if _, err := pool.Exec(b.Context(), `CREATE TABLE copied (LIKE `+table+` INCLUDING ALL)`); err != nil {
			b.Fatal(err)
		}
		order := ""
		if table == "memories" {
			order = ` ORDER BY seq`
		}
		rows, err := pool.Query(b.Context(), `SELECT * FROM `+table+order)
		if err != nil {
			b.Fatal(err)
		}
		names := rows.FieldDescriptions()
		columns := make([]string, len(names))
		for i, f := range names {
			columns[i] = f.Name
		}
		all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if _, err := pool.CopyFrom(b.Context(), pgx.Identifier{"copied"}, columns, pgx.CopyFromRows(all)); err != nil {
			b.Fatal(err)
		}
		took += time.Since(start)
		if _, err := pool.Exec(b.Context(), `DROP TABLE copied`); err != nil {
			b.Fatal(err)
		}
	}
	return took
}
