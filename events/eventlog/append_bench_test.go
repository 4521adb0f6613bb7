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

// BenchmarkAppend measures an append without the sync, in two cases. Either the server has
// the owner's newest message in memory, or the owner was away so long that it does not. To
// find that owner's newest message, the server then reads the message's whole block, 8 MB.
func BenchmarkAppend(b *testing.B) {
	const (
		blocks   = 30
		perBlock = 8000 // messages, slightly more than fit in a block
	)
	payload := []byte(strings.Repeat("x", 1000)) // about a memory of 200 bytes
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
		sequence, err := log.Append(b.Context(), eventlog.Append{
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
	away := 0 // how many of these owners have written again
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

// openIn starts a server on a folder, which may already have a log.
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
