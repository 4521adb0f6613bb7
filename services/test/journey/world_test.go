package journey

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
)

// clock advances by a quarter of a second at each tick.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) tick() time.Time {
	c.now = c.now.Add(250 * time.Millisecond)
	return c.now
}

// identifiers makes UUIDs of version 7 with the clock's time.
type identifiers struct {
	clock *clock
	n     uint64
}

func (i *identifiers) next() string {
	i.n++
	ms := uint64(i.clock.now.UnixMilli())
	return fmt.Sprintf("%08x-%04x-7%03x-8000-%012x", ms>>16, ms&0xffff, i.n, i.n)
}

// stream replaces the source of random bytes: SHA-256 of a label and a counter.
type stream struct {
	label string
	n     uint64
}

func (s *stream) Read(p []byte) (int, error) {
	for done := 0; done < len(p); {
		s.n++
		block := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("memory-ledger/journey/"+s.label+"/"), s.n))
		done += copy(p[done:], block[:])
	}
	return len(p), nil
}

// fixed returns one fixed value for a label.
func fixed(label string) [32]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint64([]byte("memory-ledger/journey/"+label+"/"), 1))
}

// log is the stream, in memory. The story has one owner and one writer.
type log struct {
	eventlog.Follower
	records []eventlog.Record
	heads   map[events.Family]uint64
}

// sealed returns the sealed text of a leaf.
func (l *log) sealed(leaf uint64) (sealed []byte, err error) {
	for _, r := range l.records {
		batch, err := events.DecodeBatch(r.Payload)
		if err != nil {
			return nil, err
		}
		for _, e := range batch {
			if data, ok := e.Data.(*events.MemoryWritten); ok && data.LeafIndex == leaf {
				sealed = data.Sealed
			}
		}
	}
	return sealed, nil
}

func (l *log) Append(_ context.Context, a eventlog.Append) (uint64, error) {
	if l.heads[a.Family] != a.Expected {
		return 0, eventlog.ErrConflict
	}
	seq := uint64(len(l.records)) + 1
	subject := events.Subject{Family: a.Family, Owner: a.Owner, Kind: a.Kind}.String()
	l.records = append(l.records, eventlog.Record{Seq: seq, Subject: subject, CommandID: a.CommandID, Payload: a.Payload})
	l.heads[a.Family] = seq
	return seq, nil
}

func (l *log) Head(context.Context) (uint64, error) { return uint64(len(l.records)), nil }

func (l *log) Lag() time.Duration { return 0 }

func (l *log) OwnerHead(_ context.Context, f events.Family, _ events.Owner) (uint64, error) {
	if f == events.FamilyAny {
		return max(l.heads[events.FamilyLedger], l.heads[events.FamilyChain]), nil
	}
	return l.heads[f], nil
}

func (l *log) OwnerNewest(context.Context, events.Family, events.Owner, events.SubjectKind) (eventlog.Record, bool, error) {
	return eventlog.Record{}, false, errors.New("not asked for")
}

func (l *log) At(context.Context, uint64) (eventlog.Record, bool, error) {
	return eventlog.Record{}, false, errors.New("not asked for")
}

func (l *log) OwnerTail(_ context.Context, f events.Family, _ events.Owner, after uint64, yield func(eventlog.Record) error) error {
	for _, r := range l.records[min(after, uint64(len(l.records))):] {
		subject, err := events.ParseSubject(r.Subject)
		if err != nil {
			return err
		}
		if subject.Family != f {
			continue
		}
		if err := yield(r); err != nil {
			return err
		}
	}
	return nil
}

func (l *log) Sync(context.Context) error { return nil }

// bucket holds the wrapped data key.
type bucket struct {
	jetstream.KeyValue
	values map[string][]byte
}

type value struct {
	jetstream.KeyValueEntry
	bytes []byte
}

func (v value) Value() []byte  { return v.bytes }
func (value) Revision() uint64 { return 1 }

func (b *bucket) Get(_ context.Context, key string) (jetstream.KeyValueEntry, error) {
	bytes, ok := b.values[key]
	if !ok {
		return nil, jetstream.ErrKeyNotFound
	}
	return value{bytes: bytes}, nil
}

func (b *bucket) Update(_ context.Context, key string, bytes []byte, _ uint64) (uint64, error) {
	b.values[key] = bytes
	return 1, nil
}
