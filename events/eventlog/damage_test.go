package eventlog_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// flip changes a byte of a message in the server's files; back changes it back.
func flip(t *testing.T, dir, payload string) (back func()) {
	t.Helper()
	files := natstest.FilesHolding(t, filepath.Join(dir, "jetstream"), []byte(payload))
	if len(files) != 1 {
		t.Fatalf("%q is in %v", payload, files)
	}
	data, err := os.ReadFile(files[0])
	must(t, err)
	at := bytes.Index(data, []byte(payload))
	write := func() {
		data[at] ^= 1
		must(t, os.WriteFile(files[0], data, 0o600))
	}
	write()
	return write
}

// numbered stores messages with the payloads "payload 001" and so on, each of another owner.
func numbered(t *testing.T, url string, messages int) []events.Owner {
	t.Helper()
	log, _ := open(t, url)
	owners := make([]events.Owner, messages)
	for i := range owners {
		owners[i] = logtest.Owner()
		if _, err := log.Append(t.Context(), eventlog.Append{
			Family: events.FamilyLedger, Owner: owners[i], Kind: events.KindMemory,
			CommandID: strconv.Itoa(i), Payload: fmt.Appendf(nil, "payload %03d", i+1),
		}); err != nil {
			t.Fatal(err)
		}
	}
	return owners
}

// After a reader has met a damaged message, the log reports the damage until the message
// can be read again.
func TestDamageThatWasMetIsSaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.StartProcess(t, natstest.Dir(dir))
	const messages = 50
	owners := numbered(t, server.URL(), messages)
	for name, meet := range map[string]func(*eventlog.JetStream) error{
		"by reading": func(log *eventlog.JetStream) error {
			return log.Read(t.Context(), eventlog.ReadConfig{To: messages}, func(eventlog.Slice) error { return nil })
		},
		"by following": func(log *eventlog.JetStream) error {
			return log.Follow(t.Context(), eventlog.FollowConfig{}, func(eventlog.Slice) error { return nil })
		},
		"by asking for an owner": func(log *eventlog.JetStream) error {
			_, err := log.OwnerHead(t.Context(), events.FamilyAny, owners[29])
			return err
		},
	} {
		server.Stop()
		back := flip(t, dir, "payload 030")
		server.Start()
		log, _ := open(t, server.URL())
		if err := log.Damaged(t.Context()); err != nil {
			t.Errorf("before anybody met it: %v", err)
		}
		if err := meet(log); err == nil {
			t.Errorf("%s: nothing was met", name)
		}
		if err := log.Damaged(t.Context()); !errors.Is(err, eventlog.ErrDamaged) || name != "by asking for an owner" && !strings.Contains(err.Error(), "can't read sequence 30") {
			t.Errorf("%s: %v", name, err)
		}
		server.Stop()
		back()
		server.Start()
		err := log.Damaged(t.Context())
		for ; errors.Is(err, eventlog.ErrUnavailable) && t.Context().Err() == nil; err = log.Damaged(t.Context()) {
			time.Sleep(10 * time.Millisecond) // until the connection is restored
		}
		if err != nil {
			t.Errorf("%s, mended: %v", name, err)
		}
	}
}

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
