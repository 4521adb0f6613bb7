package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/testkit"
)

var must = testkit.Must

// TestGroupSynced runs the suite on a log whose appends share a sync.
func TestGroupSynced(t *testing.T) {
	guarantees(t, func(t *testing.T) fixture {
		server := natstest.Start(t)
		log, cut := open(t, server.URL())
		return fixture{log: eventlog.WithGroupSync(log, server.GroupSync(eventlog.StreamName, false).Sync), cut: cut}
	}, ofAppends, ofFollows, ofReads)
}

// onProcess runs parts of the suite on a server in another process, which is killed and
// started again.
func onProcess(t *testing.T, as func(t *testing.T, log *eventlog.JetStream, url string) eventlog.Log, parts ...part) {
	t.Helper()
	guarantees(t, func(t *testing.T) fixture {
		server := natstest.StartProcess(t)
		log, cut := open(t, server.URL())
		return fixture{log: as(t, log, server.URL()), cut: cut, restart: func() {
			server.Kill()
			server.Start()
		}}
	}, parts...)
}

// TestProcess runs the suite on the log as it is.
func TestProcess(t *testing.T) {
	onProcess(t, func(_ *testing.T, log *eventlog.JetStream, _ string) eventlog.Log { return log }, ofAppends, ofFollows, ofReads)
}

// following is a log that is followed in a certain way.
type following struct {
	*eventlog.JetStream
	consumer string // empty: polling
}

func (f following) Follow(ctx context.Context, cfg eventlog.FollowConfig, yield func(eventlog.Slice) error) error {
	cfg.Consumer, cfg.Poll = f.consumer, f.consumer == ""
	return f.JetStream.Follow(ctx, cfg, yield)
}

// TestPolling follows the log as auditors do.
func TestPolling(t *testing.T) {
	onProcess(t, func(_ *testing.T, log *eventlog.JetStream, _ string) eventlog.Log { return following{JetStream: log} }, ofFollows)
}

// TestBulk reads the log as a replay does.
func TestBulk(t *testing.T) {
	onProcess(t, func(_ *testing.T, log *eventlog.JetStream, _ string) eventlog.Log { return log.Bulk() }, ofReads)
}

// TestDurable follows the log as the projector of a cluster does, through a consumer that
// was made before.
func TestDurable(t *testing.T) {
	onProcess(t, func(t *testing.T, log *eventlog.JetStream, url string) eventlog.Log {
		provideConsumer(t, url, "projector")
		return following{log, "projector"}
	}, ofFollows)
}

// Without its consumer a follower finds new messages by itself. It continues with the next
// consumer of that name.
func TestDurableWithoutItsConsumer(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server := natstest.Start(t)
	log, _ := open(t, server.URL())
	if err := (following{log, "projector"}).Follow(ctx, eventlog.FollowConfig{}, nil); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("a consumer that was never made: %v", err)
	}
	provideConsumer(t, server.URL(), "projector")
	_, js := natstest.Connect(t, server.URL())
	came := make(chan eventlog.Record)
	go func() {
		defer close(came)
		err := following{log, "projector"}.Follow(ctx, eventlog.FollowConfig{}, func(s eventlog.Slice) error {
			for _, r := range s.Records {
				came <- r
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}()
	owner, last := logtest.Owner(), uint64(0)
	write := func() {
		t.Helper()
		last = mustAppend(t, ctx, log, command(owner, last))
		if r := <-came; r.Seq != last {
			t.Fatalf("sequence %d came, %d was written", r.Seq, last)
		}
	}
	brought := func() { // returns once the consumer has delivered a message
		t.Helper()
		for {
			write()
			consumer, err := js.Consumer(ctx, eventlog.StreamName, "projector")
			must(t, err)
			if consumer.CachedInfo().Delivered.Consumer > 0 {
				return
			}
		}
	}
	brought()
	must(t, js.DeleteConsumer(ctx, eventlog.StreamName, "projector"))
	write()
	write()
	provideConsumer(t, server.URL(), "projector")
	brought()
	cancel()
	for range came {
	}
}

// TestTheFirstOfALongTail: the caller may need only the first of an owner's long messages.
func TestTheFirstOfALongTail(t *testing.T) {
	t.Parallel()
	nc, _ := natstest.Connect(t, natstest.Start(t).URL())
	natstest.Log(t, nc)
	log, err := eventlog.Open(t.Context(), nc)
	must(t, err)
	long, last := command(logtest.Owner(), 0), uint64(0)
	for long.Payload = make([]byte, 1<<20); last < 16; long.CommandID = logtest.CommandID() {
		long.Expected = last
		last = mustAppend(t, t.Context(), log, long)
	}
	before := nc.Stats().InBytes
	err = log.OwnerTail(t.Context(), events.FamilyLedger, long.Owner, 0, func(eventlog.Record) error { return errEnough })
	if got := nc.Stats().InBytes - before; !errors.Is(err, errEnough) || got > 3<<20 {
		t.Errorf("%d bytes, %v", got, err)
	}
}

func open(t *testing.T, url string) (log *eventlog.JetStream, cut func()) {
	t.Helper()
	scissors := &dialer{}
	nc, _ := natstest.Connect(t, url,
		nats.SetCustomDialer(scissors), nats.MaxReconnects(-1),
		nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	natstest.Log(t, nc)
	log, err := eventlog.Open(ctx, nc)
	must(t, err)
	return log, func() { scissors.armed.Store(true) }
}

// dialer makes connections that, once armed, break right after they have sent
// an append: the server stores it, and its answer is lost.
type dialer struct{ armed atomic.Bool }

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &breakable{Conn: conn, dialer: d}, nil
}

type breakable struct {
	net.Conn
	dialer *dialer
}

func (b *breakable) Write(p []byte) (int, error) {
	n, err := b.Conn.Write(p)
	if bytes.Contains(p, []byte("Nats-Expected-Last-Subject-Sequence:")) && b.dialer.armed.CompareAndSwap(true, false) {
		// Stop reading, so that the answer is lost.
		_ = b.Conn.(*net.TCPConn).CloseRead()
	}
	return n, err
}

// provideConsumer makes a durable consumer as an administrator does.
func provideConsumer(t *testing.T, url, name string) {
	t.Helper()
	_, js := natstest.Connect(t, url)
	_, err := js.CreateConsumer(t.Context(), eventlog.StreamName, jetstream.ConsumerConfig{
		Durable: name, DeliverPolicy: jetstream.DeliverNewPolicy, AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
	})
	must(t, err)
}

// TestNothingIsReturnedBeforeTheSync: if the disk fails, an append is in doubt, and no
// message is returned on which a decision or an answer would rest.
func TestNothingIsReturnedBeforeTheSync(t *testing.T) {
	t.Parallel()
	stream, _ := open(t, natstest.Start(t).URL())
	var failure error
	log := eventlog.WithGroupSync(stream, func(context.Context) error { return failure })
	owner, last := logtest.Owner(), uint64(0)
	write := func() (err error) {
		last, err = log.Append(t.Context(), command(owner, last))
		return err
	}
	must(t, write())
	failure = errors.New("the disk failed")
	_, _, newest := log.OwnerNewest(t.Context(), events.FamilyLedger, owner, "")
	_, overtaken := log.Append(t.Context(), command(owner, 0))
	for name, is := range map[string]struct{ err, want error }{
		"append":                       {write(), eventlog.ErrUncertain},
		"newest":                       {newest, eventlog.ErrUnavailable},
		"conflict, which has the tail": {overtaken, eventlog.ErrUnavailable},
		"tail":                         {log.OwnerTail(t.Context(), events.FamilyLedger, owner, 0, func(eventlog.Record) error { return nil }), eventlog.ErrUnavailable},
	} {
		if !errors.Is(is.err, is.want) || !errors.Is(is.err, failure) {
			t.Errorf("%s: %v", name, is.err)
		}
	}
}
