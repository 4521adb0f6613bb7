package eventlog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
	"github.com/memory-ledger/ledger/infra/testkit"
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

// A server that lost messages when it started reports that before the first read.
func TestALogThatLacksMessagesSaysSo(t *testing.T) {
	t.Parallel()
	_, js := natstest.Connect(t, natstest.Start(t).URL())
	cfg := natsconf.StreamConfig(eventlog.StreamName, 1)
	cfg.DenyDelete = false
	stream, err := js.CreateStream(t.Context(), cfg)
	must(t, err)
	for range 3 {
		must(t, testkit.ErrorOf(js.Publish(t.Context(), events.Subject{Family: events.FamilyLedger, Owner: logtest.Owner(), Kind: events.KindMemory}.String(), nil)))
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

// A follower ends with its context, even while its server does not answer the request for
// another consumer.
func TestAFollowerEndsWithoutItsServer(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	log, _ := open(t, server.URL())
	// Long enough for the follower to notice that its consumer is gone.
	ends := time.Now().Add(5 * time.Second)
	ctx, cancel := context.WithDeadline(t.Context(), ends)
	defer cancel()
	fill(t, ctx, log, logtest.Owner(), 1)
	err := log.Follow(ctx, eventlog.FollowConfig{}, func(eventlog.Slice) error {
		server.Freeze()
		return nil
	})
	server.Thaw()
	if late := time.Since(ends); err != nil || late < 0 || late > 20*time.Second { // else it would never end
		t.Errorf("ended %s after its context, %v", late, err)
	}
}

// The log is replaced by a shorter one, as by a restore from a backup, while it is
// followed.
func TestAFollowerOfALogThatGotShorter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.StartProcess(t, natstest.Dir(dir))
	log, _ := open(t, server.URL())
	fill(t, t.Context(), log, logtest.Owner(), 3)
	came, ended := make(chan uint64, 3), make(chan error, 1)
	go func() {
		ended <- log.Follow(t.Context(), eventlog.FollowConfig{}, func(s eventlog.Slice) error {
			came <- s.Last
			return nil
		})
	}()
	for <-came != 3 {
	}
	server.Stop()
	must(t, os.RemoveAll(filepath.Join(dir, "jetstream")))
	server.Start()
	_, _ = open(t, server.URL())
	if err := <-ended; !errors.Is(err, eventlog.ErrTruncated) {
		t.Errorf("it ended with %v", err)
	}
}
