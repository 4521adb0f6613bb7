package eventlog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// A closed connection never comes back: a tool that kept reading would wait forever,
// without a word.
func TestReadersEndWithTheirConnection(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	appender, _ := open(t, server.URL())
	fill(t, t.Context(), appender, logtest.Owner(), 3)
	const wanted = 5000 // more messages than there are, and enough for a consumer
	for name, read := range map[string]func(context.Context, *eventlog.JetStream, func(eventlog.Slice) error) error{
		"direct": func(ctx context.Context, l *eventlog.JetStream, yield func(eventlog.Slice) error) error {
			return l.Read(ctx, eventlog.ReadConfig{To: wanted}, yield)
		},
		"bulk": func(ctx context.Context, l *eventlog.JetStream, yield func(eventlog.Slice) error) error {
			return l.Bulk().Read(ctx, eventlog.ReadConfig{To: wanted}, yield)
		},
		"follow": func(ctx context.Context, l *eventlog.JetStream, yield func(eventlog.Slice) error) error {
			return l.Follow(ctx, eventlog.FollowConfig{}, yield)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nc, err := nats.Connect(server.URL())
			must(t, err)
			log, err := eventlog.Open(t.Context(), nc)
			must(t, err)
			// No deadline: it would also end the readers.
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			defer time.AfterFunc(20*time.Second, cancel).Stop()
			defer time.AfterFunc(300*time.Millisecond, nc.Close).Stop() // in case nothing is yielded
			err = read(ctx, log, func(eventlog.Slice) error { nc.Close(); return nil })
			if ctx.Err() != nil || !errors.Is(err, eventlog.ErrUnavailable) {
				t.Errorf("ended with %v (context: %v)", err, ctx.Err())
			}
		})
	}
}
