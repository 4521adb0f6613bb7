package eventlog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// BenchmarkAppend is an append without the sync: of an owner whose newest message the
// server has in memory, and of one who was away so long that it does not. To see which
// message is the newest it then reads all of that one's block, 8 MB.
func BenchmarkAppend(b *testing.B) {
	const (
		blocks   = 30
		perBlock = 8000 // messages, a little more than are in one
	)
	payload := []byte(strings.Repeat("x", 1000)) // a memory of 200 bytes, about
	dir := b.TempDir()
	server, js, log := openIn(b, dir)
	owners := make([]events.Owner, blocks*perBlock)
	for i := range owners {
		owners[i] = logtest.Owner()
		subject := events.Subject{Family: events.FamilyLedger, Owner: owners[i], Kind: events.KindMemory}.String()
		if _, err := js.PublishAsync(subject, payload, jetstream.WithStallWait(10*time.Second)); err != nil {
			b.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	head, err := log.Head(b.Context())
	if err != nil || head != uint64(len(owners)) {
		b.Fatal(head, err)
	}
	write := func(b *testing.B, i int, expected uint64) uint64 {
		sequence, err := eventlog.AppendAndWait(b.Context(), log, eventlog.Append{
			Family: events.FamilyLedger, Owner: owners[i], Kind: events.KindMemory, CommandID: logtest.CommandID(), Payload: payload, Expected: expected,
		})
		if err != nil {
			b.Fatal(err)
		}
		return sequence
	}
	last := head
	b.Run("of an owner who writes", func(b *testing.B) {
		for b.Loop() {
			last = write(b, len(owners)-1, last)
		}
	})
	away := 0 // how many of them came back
	b.Run("of an owner who was away", func(b *testing.B) {
		for b.Loop() {
			if away%blocks == 0 { // each block is in memory by now
				b.StopTimer()
				js.Conn().Close()
				if err := server.Stop(b.Context()); err != nil {
					b.Fatal(err)
				}
				server, js, log = openIn(b, dir)
				b.StartTimer()
			}
			i := away%blocks*perBlock + away/blocks
			write(b, i, uint64(i+1))
			away++
		}
	})
}

// openIn starts a server on a folder, which may have a log already.
func openIn(b *testing.B, dir string) (*localnats.Server, jetstream.JetStream, *eventlog.JetStream) {
	b.Helper()
	server := natstest.Start(b, natstest.Dir(dir))
	nc, js := connect(b, server.URL())
	log, err := eventlog.Create(b.Context(), nc, eventlog.Config{})
	if err != nil {
		b.Fatal(err)
	}
	return server, js, log
}
