package eventlog

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// TestAClientGoesRoundUntilANodeAnswers: the first node has one second. As long as no node
// has answered, each further one has half a second.
func TestAClientGoesRoundUntilANodeAnswers(t *testing.T) {
	t.Parallel()
	nc, err := nats.Connect(natstest.Start(t).URL()+","+natstest.Start(t).URL(), nats.MaxReconnects(-1), nats.ReconnectWait(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	connected := nc.StatusChanged(nats.CONNECTED)
	m := &mover{nc: nc}
	moves := func(want bool, began time.Time) {
		t.Helper()
		before := m.moved
		m.unanswered(began)
		if moved := m.moved != before; moved != want {
			t.Fatalf("moved: %t", moved)
		}
		if want {
			<-connected
		}
	}
	now := time.Now()
	moves(false, now.Add(-time.Second/2))
	moves(false, now.Add(-time.Minute)) // the silence began with the first attempt
	m.since = now.Add(-time.Second)
	moves(true, now)
	moves(false, now)
	m.moved = now.Add(-time.Second) // the way to this node took so long
	moves(false, now)
	m.came = m.moved
	moves(true, time.Now())
	m.answered()
	m.moved = now.Add(-time.Minute)
	moves(false, now.Add(-time.Minute)) // an answer came after this attempt began
}
