package eventlog

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// delivered is a message as a consumer brings it.
type delivered struct {
	jetstream.Msg
	consumer, stream uint64
}

func (d delivered) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Consumer: d.consumer, Stream: d.stream}}, nil
}
func (d delivered) Subject() string      { return "s" }
func (d delivered) Headers() nats.Header { return nil }
func (d delivered) Data() []byte         { return []byte("0123456789") }

// A message that the server sent and that never came is no gap in the log: it is
// asked for again. One that the log does not have is.
func TestLostIsNotAGap(t *testing.T) {
	t.Parallel()
	var sent []Slice
	g := gatherer{cfg: ReadConfig{From: 5, To: 9, MaxBytes: 20}, next: 5, send: func(s Slice) error {
		sent = append(sent, s)
		return nil
	}}
	for i, step := range []struct {
		delivered
		fresh bool // consumer
		want  error
		next  uint64
	}{
		{delivered{consumer: 1, stream: 5}, true, nil, 6},
		{delivered{consumer: 3, stream: 7}, false, errLost, 6},
		{delivered{consumer: 1, stream: 6}, true, nil, 7},
		{delivered{consumer: 2, stream: 6}, false, ErrGap, 7}, // again
		{delivered{consumer: 1, stream: 8}, true, ErrGap, 7},
		{delivered{consumer: 1, stream: 7}, true, nil, 8},
		{delivered{consumer: 2, stream: 8}, false, nil, 9},
		{delivered{consumer: 3, stream: 9}, false, nil, 10},
	} {
		if step.fresh {
			g.delivered = 0
		}
		if err := g.take(step.delivered); !errors.Is(err, step.want) || g.next != step.next {
			t.Errorf("step %d: %v, next is %d", i, err, g.next)
		}
	}
	if !g.done() || len(sent) != 3 {
		t.Fatalf("%d slices", len(sent))
	}
	for i, want := range [][2]uint64{{5, 6}, {7, 8}, {9, 9}} {
		if s := sent[i]; s.First != want[0] || s.Last != want[1] || uint64(len(s.Records)) != want[1]-want[0]+1 {
			t.Errorf("slice %d: %d to %d, %d records", i, s.First, s.Last, len(s.Records))
		}
	}
}

// A slice that was not delivered, because the read ended, does not count as read. This
// holds for the last slice too.
func TestWhatNobodyTookIsNotRead(t *testing.T) {
	t.Parallel()
	ended := errors.New("ended")
	g := gatherer{cfg: ReadConfig{From: 5, To: 6, MaxBytes: 100}, next: 5, send: func(Slice) error { return ended }}
	if err := g.add(Record{Seq: 5}); err != nil || g.next != 6 {
		t.Fatalf("%v, next is %d", err, g.next)
	}
	if err := g.add(Record{Seq: 6}); !errors.Is(err, ended) || g.done() || g.next != 5 {
		t.Errorf("%v, next is %d", err, g.next)
	}
}
