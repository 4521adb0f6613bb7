package eventlog

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Blocks reads the log's messages where its server keeps them.
type Blocks interface {
	// Scan calls yield with the messages from one sequence to another, in order,
	// and returns nil at the end or before the first one that it does not find. It
	// may find one that was deleted. What yield is given is worth nothing when it
	// returns; the time is in nanoseconds since 1970. Scan returns yield's error as
	// it is.
	Scan(ctx context.Context, from, to uint64, yield func(seq uint64, time int64, subject, header, payload []byte) error) error
}

// Files is the log for those who replay all of it on the machine of its one
// server, and may read its files. What they do not find there they ask the server
// for, as [Bulk].
type Files struct {
	Bulk
	blocks Blocks
}

var (
	_ Log        = Files{}
	_ PartReader = Files{}
)

// Files returns the log as it is read past its server.
func (l *JetStream) Files(blocks Blocks) Files { return Files{l.Bulk(), blocks} }

// Read implements PartReader. What is short or filtered is read by direct gets.
func (f Files) Read(ctx context.Context, cfg ReadConfig, yield func(Slice) error) error {
	// One is filled, one waits and one is worked on.
	rooms := make(chan []byte, 3)
	fetch := func(ctx context.Context, cfg ReadConfig, out chan<- Slice) error {
		return f.fetch(ctx, cfg, rooms, out)
	}
	return f.readLong(ctx, cfg, fetch, func(slice Slice) error {
		err := yield(slice)
		select {
		case rooms <- slice.room[:0]:
		default:
		}
		return err
	})
}

// fetch sends the slices of a Read. It copies their payloads together, where there
// is room from an earlier slice: to clear as much memory for each, and collect it
// afterwards, cost a verify a tenth of its time.
func (f Files) fetch(ctx context.Context, cfg ReadConfig, rooms <-chan []byte, out chan<- Slice) error {
	g := newGatherer(ctx, cfg, out)
	if state, err := f.state(ctx, everySubject); err != nil || state.Msgs != state.LastSeq {
		// Something was deleted, and may still be in its file; or who knows.
		return f.gather(ctx, g)
	}
	err := f.blocks.Scan(ctx, g.next, cfg.To, func(seq uint64, at int64, subject, header, payload []byte) error {
		if len(g.slice.Records) == 0 {
			select {
			case g.slice.room = <-rooms:
			default: // none is back yet
			}
		}
		begin := len(g.slice.room)
		g.slice.room = append(g.slice.room, payload...)
		return g.add(Record{
			Seq: seq, Subject: string(subject), Time: time.Unix(0, at),
			CommandID: commandIn(header), Payload: g.slice.room[begin:len(g.slice.room):len(g.slice.room)],
		})
	})
	switch {
	case g.done():
		return nil
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("read before sequence %d: %w", g.next, err)
	default: // which says so where ctx has ended
		return f.gather(ctx, g)
	}
}

var (
	commandField = []byte("\r\n" + jetstream.MsgIDHeader + ":")
	fieldEnd     = []byte("\r\n")
)

// commandIn returns the command id in a header as it was sent (ADR-4 of NATS), empty
// if there is none.
func commandIn(header []byte) string {
	_, rest, _ := bytes.Cut(header, commandField)
	value, _, _ := bytes.Cut(rest, fieldEnd)
	return string(bytes.TrimSpace(value))
}
