package eventlog_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/infra/testkit"
)

// A log that lost a message in its middle is never read as if it were whole.
// The stream here allows deletion, which the log's stream never does.
func TestReadersSeeAGap(t *testing.T) {
	t.Parallel()
	const messages, lost = 2500, 1777
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nc, js := natstest.Connect(t, natstest.Start(t).URL())
	cfg := natsconf.StreamConfig(eventlog.StreamName, 1)
	cfg.DenyDelete, cfg.DenyPurge = false, false
	stream, err := js.CreateStream(ctx, cfg)
	must(t, err)
	subject := events.Subject{Family: events.FamilyLedger, Owner: logtest.Owner(), Kind: events.KindMemory}.String()
	for i := range messages {
		must(t, testkit.ErrorOf(js.PublishAsync(subject, []byte(strconv.Itoa(i)))))
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		t.Fatal(ctx.Err())
	}
	must(t, stream.DeleteMsg(ctx, lost))
	log, err := eventlog.Open(ctx, nc)
	must(t, err)
	for name, reader := range map[string]eventlog.PartReader{
		"direct": log, "bulk": log.Bulk(),
	} {
		last := uint64(0)
		err := reader.Read(ctx, eventlog.ReadConfig{To: messages}, func(s eventlog.Slice) error {
			last = s.Last
			return nil
		})
		if !errors.Is(err, eventlog.ErrGap) || last >= lost {
			t.Errorf("%s: read up to %d: %v", name, last, err)
		}
	}
	for name, follower := range map[string]eventlog.Follower{"direct": log, "consumer": log} {
		last := uint64(0)
		err := follower.Follow(ctx, eventlog.FollowConfig{}, func(s eventlog.Slice) error {
			last = s.Last
			return nil
		})
		if !errors.Is(err, eventlog.ErrGap) || last >= lost {
			t.Errorf("%s: followed up to %d: %v", name, last, err)
		}
	}
}
