package backup

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// TestAPieceIsSentAgainToAServerNotYetHeardOf: in a cluster, a sender can learn the
// subject for the pieces before it learns of the server's subscription to it. A piece
// without a responder is sent again, and arrives once.
func TestAPieceIsSentAgainToAServerNotYetHeardOf(t *testing.T) {
	url := natstest.Start(t).URL()
	connect := func() *nats.Conn {
		t.Helper()
		nc, _ := natstest.Connect(t, url)
		return nc
	}
	sender, server := connect(), connect()

	type answer struct {
		reply *nats.Msg
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		reply, err := hand(t.Context(), sender, "pieces", []byte("piece"))
		answers <- answer{reply, err}
	}()
	for sender.Stats().InMsgs == 0 { // until the sender heard that there is no responder
		select {
		case a := <-answers:
			t.Fatalf("given up at once: %v", a.err)
		case <-time.After(time.Millisecond):
		}
	}
	pieces := make(chan string, 10)
	if _, err := server.Subscribe("pieces", func(m *nats.Msg) {
		pieces <- string(m.Data)
		_ = m.Respond([]byte("written"))
	}); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.err != nil || string(a.reply.Data) != "written" {
		t.Fatalf("%v, %v", a.reply, a.err)
	}
	if len(pieces) != 1 || <-pieces != "piece" {
		t.Error("the piece did not arrive once as it was")
	}
}
