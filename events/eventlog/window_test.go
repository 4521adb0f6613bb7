package eventlog_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// remembering makes the log's stream with another duplicate window.
func remembering(t *testing.T, js jetstream.JetStream, window time.Duration) jetstream.Stream {
	t.Helper()
	cfg := eventlog.StreamConfig(eventlog.Config{})
	cfg.Duplicates = window
	stream, err := js.CreateStream(t.Context(), cfg)
	must(t, err)
	return stream
}

// A server with the only replica checks a message's expectation before it checks the
// message's id, so it need not remember ids for as long as an append is retried.
func TestExpectationComesBeforeDuplicates(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	nc, js := connect(t, natstest.Start(t).URL())
	remembering(t, js, time.Hour) // so that it still knows the id
	log, err := eventlog.Open(ctx, nc)
	must(t, err)
	a := command(logtest.Owner(), 0)
	mustAppend(t, ctx, log, a)
	_, err = js.PublishMsg(ctx, &nats.Msg{
		Subject: events.Subject{Family: a.Family, Owner: a.Owner, Kind: a.Kind}.String(), Data: a.Payload,
		Header: nats.Header{
			jetstream.MsgIDHeader:                   {a.CommandID},
			jetstream.ExpectedLastSubjSeqHeader:     {strconv.FormatUint(a.Expected, 10)},
			jetstream.ExpectedLastSubjSeqSubjHeader: {events.OwnerFilter(a.Family, a.Owner)},
		},
	})
	var refusal *jetstream.APIError
	if !errors.As(err, &refusal) || refusal.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
		t.Errorf("the same message again: %v", err)
	}
}

// With several replicas, the leader checks ids first, and must remember them for as long
// as an append is retried.
func TestReplicasRememberIDs(t *testing.T) {
	t.Parallel()
	for replicas, want := range map[int]time.Duration{0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 3: 2 * time.Minute, 5: 2 * time.Minute} {
		if got := eventlog.StreamConfig(eventlog.Config{Replicas: replicas}).Duplicates; got != want {
			t.Errorf("%d replicas: %s", replicas, got)
		}
	}
}
