package eventlog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
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

// TestWhatCantBeReadIsNotCalledMissing: a server that fails to read a message says
// that it has none. A reader that believed this would take the log for empty. It would
// also assume that an owner who is behind has nothing to wait for.
func TestWhatCantBeReadIsNotCalledMissing(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	// A restarted server has read its newest message. With a long duplicate window it also
	// reads the rest to find the ids, and then drops the block from memory. With a short
	// window it keeps the block.
	_, js := natstest.Connect(t, server.URL())
	cfg := natsconf.StreamConfig(eventlog.StreamName, 1)
	cfg.Duplicates = 2 * time.Minute
	_, err := js.CreateStream(t.Context(), cfg)
	must(t, err)
	appender, _ := open(t, server.URL())
	const messages = 3
	owner, stranger := logtest.Owner(), logtest.Owner()
	stored := command(owner, fill(t, t.Context(), appender, owner, messages-1))
	mustAppend(t, t.Context(), appender, stored)
	// The server keeps new messages in memory, so restart it.
	server.Stop()
	server.Start()
	log, _ := open(t, server.URL())
	feed := server.Starve()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	filter := events.OwnerFilter(events.FamilyLedger, owner)
	told := uint64(0)                  // the newest sequence that a question returned
	patience := 300 * time.Millisecond // a server that can't read does not answer these
	questions := map[string]func(context.Context) error{
		"head": func(ctx context.Context) (err error) { told, err = log.Head(ctx); return err },
		"owner head": func(ctx context.Context) (err error) {
			told, err = log.OwnerHead(ctx, events.FamilyAny, owner)
			return err
		},
		"newest": func(ctx context.Context) error {
			r, found, err := log.OwnerNewest(ctx, events.FamilyLedger, owner, "")
			if told = r.Seq; err == nil && !found {
				return errors.New("not found")
			}
			return err
		},
		"tail": func(ctx context.Context) error {
			return log.OwnerTail(ctx, events.FamilyLedger, owner, 1, func(r eventlog.Record) error { told = r.Seq; return nil })
		},
		"read": func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, patience) // else it would wait
			defer cancel()
			return log.Read(ctx, eventlog.ReadConfig{To: messages, Subject: filter}, func(s eventlog.Slice) error { told = s.Last; return nil })
		},
		"append": func(ctx context.Context) (err error) { // of a message that is already stored
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			told, err = log.Append(ctx, stored)
			return err
		},
	}
	for name, ask := range questions {
		told = 0
		want := eventlog.ErrUnavailable
		if name == "append" {
			want = eventlog.ErrUncertain
		}
		if err := ask(ctx); !errors.Is(err, want) || told != 0 {
			t.Errorf("%s of a server that can't read: told of %d, %v", name, told, err)
		}
	}
	if seq, err := log.OwnerHead(ctx, events.FamilyAny, stranger); err != nil || seq != 0 {
		t.Errorf("an owner without a message: %d, %v", seq, err)
	}
	feed()
	patience = time.Minute
	for name, ask := range questions {
		told = 0
		if err := ask(ctx); err != nil || told != messages {
			t.Errorf("%s: told of %d, %v", name, told, err)
		}
	}
}
