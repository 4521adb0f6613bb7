package main

import (
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// TestAFillWaitsForRoom: a fill waits for a log that stalls for a moment while the most
// messages are in flight.
func TestAFillWaitsForRoom(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	nc, _ := natstest.Connect(t, server.URL())
	log, err := eventlog.Create(t.Context(), nc, eventlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	const messages = 3 * inFlight
	err = publish(nc, messages, func(i int) (string, []byte, error) {
		if i == inFlight { // the next inFlight messages soon use up the room
			server.Freeze()
			time.AfterFunc(time.Second, server.Thaw)
		}
		return "ledger.00.somebody.memory", []byte("x"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if head, err := log.Head(t.Context()); err != nil || head != messages {
		t.Errorf("%d messages, %v", head, err)
	}
}
