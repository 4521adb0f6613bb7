package eventlog_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// A server that lost messages when it started reports that before the first read.
func TestALogThatLacksMessagesSaysSo(t *testing.T) {
	t.Parallel()
	_, js := connect(t, natstest.Start(t).URL())
	cfg := eventlog.StreamConfig(eventlog.Config{})
	cfg.DenyDelete = false
	stream, err := js.CreateStream(t.Context(), cfg)
	must(t, err)
	for range 3 {
		if _, err := js.Publish(t.Context(), events.Subject{Family: events.FamilyLedger, Owner: logtest.Owner(), Kind: events.KindMemory}.String(), nil); err != nil {
			t.Fatal(err)
		}
	}
	log, err := eventlog.Open(t.Context(), js.Conn())
	must(t, err)
	if err := log.Damaged(t.Context()); err != nil {
		t.Error(err)
	}
	must(t, stream.DeleteMsg(t.Context(), 2))
	if err := log.Damaged(t.Context()); !errors.Is(err, eventlog.ErrDamaged) || !strings.Contains(err.Error(), "2 of 3 messages") {
		t.Error(err)
	}
}
