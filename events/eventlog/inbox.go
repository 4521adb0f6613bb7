package eventlog

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// keptInboxes bounds how many inboxes wait for their next request.
const keptInboxes = 256

// inboxes sends requests to the server. nats.Conn.RequestMsg has one inbox for all
// requests, and the inbox's goroutine passes each answer on to its caller. Here the
// connection passes the answer on itself, to an inbox that one request at a time uses.
// So one goroutine fewer wakes up between a write and its acknowledgement.
type inboxes struct {
	nc   *nats.Conn
	free chan *inbox
}

type inbox struct {
	subject string // of the answers, without the number of their request
	number  uint64 // of the last request
	answers chan *nats.Msg
	sub     *nats.Subscription
	patient *time.Timer
}

func newInboxes(nc *nats.Conn) *inboxes {
	return &inboxes{nc: nc, free: make(chan *inbox, keptInboxes)}
}

// request sends a message and waits for its answer. Until that arrives, it sends the message
// again and again, at the given interval, if that is shorter than patience; an answer to any
// copy counts. It also waits on if a node answers that it knows no leader, because another
// node may. It returns how many copies it sent. Errors are ctx's and those of
// nats.Conn.RequestMsg: nats.ErrTimeout, nats.ErrNoResponders, and any error that prevents
// the first copy from being sent.
func (i *inboxes) request(ctx context.Context, msg *nats.Msg, patience, again time.Duration) (answer *nats.Msg, copies int, err error) {
	box, err := i.take(patience)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err == nil && copies == 1 {
			i.put(box)
		} else {
			box.discard() // answers to the copies may fill it
		}
	}()
	var repeat <-chan time.Time
	if again < patience {
		ticker := time.NewTicker(again)
		defer ticker.Stop()
		repeat = ticker.C
	}
	box.number++
	msg.Reply = box.subject + "." + strconv.FormatUint(box.number, 10)
	if err := i.nc.PublishMsg(msg); err != nil {
		return nil, 0, err
	}
	var leaderless *nats.Msg
	for copies = 1; ; {
		select {
		case answer := <-box.answers:
			switch {
			case answer.Subject != msg.Reply: // a second node's answer to an earlier request
			case len(answer.Data) == 0 && answer.Header.Get("Status") == "503":
				if copies == 1 { // else an earlier copy may still be answered
					return nil, copies, nats.ErrNoResponders
				}
			case knowsNoLeader(answer):
				leaderless = answer
			default:
				return answer, copies, nil
			}
		case <-repeat:
			if i.nc.PublishMsg(msg) == nil {
				copies++
			}
		case <-box.patient.C:
			if leaderless != nil {
				return leaderless, copies, nil
			}
			return nil, copies, nats.ErrTimeout
		case <-ctx.Done():
			return nil, copies, ctx.Err()
		}
	}
}

// knowsNoLeader reports whether a node answers that the cluster has no leader. A message of
// the log, as a direct get returns it, has a header.
func knowsNoLeader(answer *nats.Msg) bool {
	return len(answer.Header) == 0 && len(answer.Data) < 1024 && bytes.Contains(answer.Data, []byte(`"err_code":10008`))
}

func (i *inboxes) take(patience time.Duration) (*inbox, error) {
	for free := true; free; {
		select {
		case box := <-i.free:
			if len(box.answers) > 0 {
				box.discard() // second answers to the last request would fill it
				continue
			}
			box.patient.Reset(patience)
			return box, nil
		default:
			free = false
		}
	}
	box := &inbox{subject: i.nc.NewInbox(), answers: make(chan *nats.Msg, 8)}
	var err error
	if box.sub, err = i.nc.ChanSubscribe(box.subject+".*", box.answers); err != nil {
		return nil, err
	}
	box.patient = time.NewTimer(patience)
	return box, nil
}

// put keeps an inbox for reuse after its answer arrived.
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
	_ = b.sub.Unsubscribe() // fails if the connection is gone, and the subscription with it
}
