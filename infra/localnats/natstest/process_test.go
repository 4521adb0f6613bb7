package natstest_test

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

func TestKilledServerComesBackWithWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	p := natstest.StartProcess(t)
	if p.PID() == os.Getpid() {
		t.Fatal("not a process of its own")
	}
	reconnected := make(chan struct{}, 8)
	conn, err := nats.Connect(p.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
		nats.ReconnectHandler(func(*nats.Conn) { reconnected <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t"}}); err != nil {
		t.Fatal(err)
	}
	for round, down := range []func(){p.Kill, p.Stop, p.Kill} {
		for i := range 20 {
			ack, err := js.Publish(t.Context(), "t", []byte("x"))
			if err != nil || ack.Sequence != uint64(round*20+i+1) {
				t.Fatalf("round %d: %+v, %v", round, ack, err)
			}
		}
		pid, url := p.PID(), p.URL()
		down()
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Fatalf("process %d is still there: %v", pid, err)
		}
		p.Start()
		if p.URL() != url || p.PID() == pid {
			t.Errorf("came back as %d", p.PID())
		}
		<-reconnected
	}
}

func TestFreeze(t *testing.T) {
	t.Parallel()
	p := natstest.StartProcess(t)
	conn, err := nats.Connect(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	p.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := conn.FlushWithContext(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a frozen server answered: %v", err)
	}
	p.Thaw()
	if err := conn.FlushTimeout(10 * time.Second); err != nil {
		t.Errorf("after the thaw: %v", err)
	}
}
