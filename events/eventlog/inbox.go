package eventlog

import (
	"time"

	"github.com/nats-io/nats.go"
)

// keptInboxes bounds how many inboxes wait for their next request.
const keptInboxes = 256

// inboxes puts requests to the server. nats.Conn.RequestMsg has one inbox for
// all, whose goroutine hands each answer on to who waits for it; here the
// connection hands it on itself, to an inbox that one request at a time uses.
// That is one goroutine fewer to wake between a write and its acknowledgement.
type inboxes struct {
	nc   *nats.Conn
	free chan *inbox
}

type inbox struct {
	subject string
	answers chan *nats.Msg
	sub     *nats.Subscription
	patient *time.Timer
}

func newInboxes(nc *nats.Conn) *inboxes {
	return &inboxes{nc: nc, free: make(chan *inbox, keptInboxes)}
}

// request sends a message and waits for its answer. Errors are those of
// nats.Conn.RequestMsg: nats.ErrTimeout, nats.ErrNoResponders, and whatever
// keeps a message from being sent.
func (i *inboxes) request(msg *nats.Msg, patience time.Duration) (*nats.Msg, error) {
	box, err := i.take(patience)
	if err != nil {
		return nil, err
	}
	msg.Reply = box.subject
	if err := i.nc.PublishMsg(msg); err != nil {
		box.discard()
		return nil, err
	}
	select {
	case answer := <-box.answers:
		i.put(box)
		if len(answer.Data) == 0 && answer.Header.Get("Status") == "503" {
			return nil, nats.ErrNoResponders
		}
		return answer, nil
	case <-box.patient.C:
		box.discard() // its answer may still come, and must not be another's
		return nil, nats.ErrTimeout
	}
}

func (i *inboxes) take(patience time.Duration) (*inbox, error) {
	for free := true; free; {
		select {
		case box := <-i.free:
			if len(box.answers) > 0 {
				box.discard() // a second answer to its last request is none to the next
				continue
			}
			box.patient.Reset(patience)
			return box, nil
		default:
			free = false
		}
	}
	box := &inbox{subject: i.nc.NewInbox(), answers: make(chan *nats.Msg, 1)}
	var err error
	if box.sub, err = i.nc.ChanSubscribe(box.subject, box.answers); err != nil {
		return nil, err
	}
	box.patient = time.NewTimer(patience)
	return box, nil
}

// put keeps an inbox that was answered.
func (i *inboxes) put(box *inbox) {
	box.patient.Stop()
	select {
	case i.free <- box:
	default:
		box.discard()
	}
}

func (b *inbox) discard() {
	b.patient.Stop()
	_ = b.sub.Unsubscribe() // fails where the connection is gone, and it with it
}
