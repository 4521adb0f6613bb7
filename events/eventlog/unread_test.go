package eventlog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

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
