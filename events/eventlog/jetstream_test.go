package eventlog_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// TestEmbedded runs the suite on a server inside this process.
func TestEmbedded(t *testing.T) {
	logtest.Run(t, func(t *testing.T) logtest.Fixture {
		server := natstest.Start(t)
		log, cut := open(t, server.URL())
		return logtest.Fixture{Log: log, Cut: cut}
	})
}

// TestProcess runs the suite on a server of its own, which is killed and
// started again.
func TestProcess(t *testing.T) {
	logtest.Run(t, func(t *testing.T) logtest.Fixture {
		server := natstest.StartProcess(t)
		log, cut := open(t, server.URL())
		return logtest.Fixture{Log: log, Cut: cut, Restart: func() {
			server.Kill()
			server.Start()
		}}
	})
}

// TestDirect runs the suite on the log as auditors read it.
func TestDirect(t *testing.T) {
	logtest.Run(t, func(t *testing.T) logtest.Fixture {
		server := natstest.StartProcess(t)
		log, cut := open(t, server.URL())
		return logtest.Fixture{Log: log.(*eventlog.JetStream).Direct(), Cut: cut, Restart: func() {
			server.Kill()
			server.Start()
		}}
	})
}

func open(t *testing.T, url string) (log eventlog.Log, cut func()) {
	t.Helper()
	scissors := &dialer{}
	nc, err := nats.Connect(url,
		nats.SetCustomDialer(scissors), nats.MaxReconnects(-1),
		nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	log, err = eventlog.Create(ctx, nc, eventlog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return log, func() { scissors.armed.Store(true) }
}

// dialer makes connections that, once armed, break right after they have sent
// an append: the server stores it, and nobody hears of it.
type dialer struct{ armed atomic.Bool }

func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).Dial(network, address)
	return &breakable{Conn: conn, dialer: d}, err
}

type breakable struct {
	net.Conn
	dialer *dialer
}

func (b *breakable) Write(p []byte) (int, error) {
	n, err := b.Conn.Write(p)
	if bytes.Contains(p, []byte("Nats-Expected-Last-Subject-Sequence:")) && b.dialer.armed.CompareAndSwap(true, false) {
		// No more reads: the answer, when it comes, finds nobody.
		_ = b.Conn.(*net.TCPConn).CloseRead()
	}
	return n, err
}
