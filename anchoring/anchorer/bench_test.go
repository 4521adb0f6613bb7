package anchorer

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/anchoring/chain"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// BenchmarkSweep anchors new leaves of many owners (SWEEP_OWNERS, 1000 by default) and
// reports the cost per owner: in the first sweep, which creates the accounts, and in the
// next.
func BenchmarkSweep(b *testing.B) {
	n := 1000
	if text := os.Getenv("SWEEP_OWNERS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	for b.Loop() {
		w := newWorld(b, true)
		keys := make([]events.Owner, n)
		for i := range keys {
			keys[i] = newOwnerKey()
		}
		w.writeAll(keys)
		p := w.start(nil, func(c *Config) { c.CachedOwners, c.PollEvery = 1000, 100*time.Millisecond })
		w.sweep(b, keys, 1, "create")
		p.stop()
		w.writeAll(keys)
		p = w.start(nil, func(c *Config) { c.CachedOwners, c.PollEvery = 1000, 100*time.Millisecond })
		w.sweep(b, keys, 2, "update")
		p.stop()
		w.reportBytes(b, 2*n)
	}
}

// reportBytes reports how many bytes of the log a batch of one owner takes.
func (w *world) reportBytes(b *testing.B, batches int) {
	b.Helper()
	js, err := jetstream.New(w.conn)
	w.must(err)
	chain, err := js.OrderedConsumer(b.Context(), eventlog.StreamName, jetstream.OrderedConsumerConfig{FilterSubjects: []string{"chain.>"}})
	w.must(err)
	size := 0
	for left := uint64(1); left > 0; {
		msg, err := chain.Next()
		w.must(err)
		meta, err := msg.Metadata()
		w.must(err)
		// The server's own form of a message: lengths, sequence and time in 26 bytes,
		// subject, header, payload, and a checksum of 8 bytes.
		header := bytes.NewBufferString("NATS/1.0\r\n")
		w.must(http.Header(msg.Headers()).Write(header))
		size += 26 + len(msg.Subject()) + header.Len() + len(msg.Data()) + 8
		left = meta.NumPending
	}
	b.ReportMetric(float64(size)/float64(batches), "log-B/batch")
}

func (w *world) writeAll(keys []events.Owner) {
	var group sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, key := range keys {
		slots <- struct{}{}
		group.Go(func() { w.write(key, 1); <-slots })
	}
	group.Wait()
}

// sweep waits for the next batch of every owner and reports the figures.
func (w *world) sweep(b *testing.B, keys []events.Owner, batches int, name string) {
	b.Helper()
	before, started := w.balance(), time.Now()
	done := context.Canceled
	signatures, sizes := map[string]int{}, map[events.Owner]int{}
	anchored := 0
	err := w.follow(b.Context(), func(e *events.Event) error {
		if c, ok := e.Data.(*events.BatchConfirmed); ok {
			if sizes[e.Owner]++; sizes[e.Owner] == batches {
				signatures[c.Signature]++
				anchored++
			}
		}
		if anchored == len(keys) {
			return done
		}
		return nil
	})
	if err != done {
		b.Fatal(err)
	}
	took := time.Since(started)
	owners := float64(len(keys))
	b.ReportMetric(owners/took.Seconds(), name+"-owners/s")
	b.ReportMetric(owners/float64(len(signatures)), name+"-commits/tx")
	b.ReportMetric(float64(before-w.balance())/owners, name+"-lamports/owner")
	b.ReportMetric(float64(w.units(signatures))/owners, name+"-CU/owner")
}

func (w *world) balance() uint64 {
	lamports, err := w.client.Balance(w.t.Context(), w.authority.PublicKey())
	w.must(err)
	return lamports
}

// units sums the compute units of transactions.
func (w *world) units(signatures map[string]int) (sum uint64) {
	for signature := range signatures {
		var tx struct {
			Meta struct{ ComputeUnitsConsumed uint64 }
		}
		w.must(w.chain.Call(w.t.Context(), &tx, "getTransaction", signature, map[string]any{"encoding": "base64", "commitment": chain.Confirmed}))
		sum += tx.Meta.ComputeUnitsConsumed
	}
	return sum
}
