// Package world gives tests a small real world: a PostgreSQL schema, a
// JetStream log, and owners who act in it.
package world

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/localpostgres"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/column"
	"github.com/memory-ledger/ledger/projections/schema"
)

// Database is a fresh database with the live schema in it.
func Database(t testing.TB) (url string, pool *pgxpool.Pool) {
	t.Helper()
	url = pgtest.Database(t)
	return url, Pool(t, url, schema.Live)
}

// RunDatabase is where a database is that is set up as that of a local run, with
// fsync and as much memory, on a server of its own: for benchmarks.
func RunDatabase(t testing.TB) (url string) {
	t.Helper()
	return pgtest.Start(t, localpostgres.Config{AsyncCommit: true, SharedBuffers: schema.LocalSharedBuffers}).URL()
}

// Pool migrates a schema and opens it.
func Pool(t testing.TB, url, schemaName string) *pgxpool.Pool {
	t.Helper()
	if err := schema.Migrate(t.Context(), url, schemaName); err != nil {
		t.Fatalf("world: %v", err)
	}
	pool, err := schema.OpenPool(context.Background(), url, schemaName, 8)
	if err != nil {
		t.Fatalf("world: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// Reopened is a pool to where another one leads, with what change does to how it
// connects; so do connections that are made outside of it, with its configuration.
func Reopened(t testing.TB, pool *pgxpool.Pool, change func(*pgx.ConnConfig)) *pgxpool.Pool {
	t.Helper()
	cfg := pool.Config()
	change(cfg.ConnConfig)
	again, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatalf("world: %v", err)
	}
	t.Cleanup(again.Close)
	return again
}

// Log is a log on a server of the test's own.
type Log struct {
	eventlog.Log
	js jetstream.JetStream
}

// NewLog starts one.
func NewLog(t testing.TB, opts ...natstest.Option) *Log {
	t.Helper()
	return OpenLog(t, natstest.Start(t, opts...))
}

// OpenLog opens the log of a running server.
func OpenLog(t testing.TB, server *localnats.Server) *Log {
	t.Helper()
	nc, err := server.Connect(nats.MaxReconnects(-1))
	if err != nil {
		t.Fatalf("world: %v", err)
	}
	return open(t, nc)
}

// ConnectLog opens the log of a server in another process. The connection is
// made again for as long as the test runs.
func ConnectLog(t testing.TB, url string) *Log {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatalf("world: %v", err)
	}
	t.Cleanup(nc.Close)
	return open(t, nc)
}

func open(t testing.TB, nc *nats.Conn) *Log {
	t.Helper()
	log, err := eventlog.Create(t.Context(), nc, eventlog.Config{})
	if err != nil {
		t.Fatalf("world: %v", err)
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1000))
	if err != nil {
		t.Fatalf("world: %v", err)
	}
	return &Log{Log: log, js: js}
}

// Replayed returns the log as a replay reads it, by direct gets.
func (l *Log) Replayed() eventlog.Direct { return l.Log.(*eventlog.JetStream).Direct() }

// PublishRaw adds a message of any bytes under any subject.
func (l *Log) PublishRaw(t testing.TB, subject string, payload []byte) uint64 {
	t.Helper()
	ack, err := l.js.Publish(t.Context(), subject, payload)
	if err != nil {
		t.Fatalf("world: %v", err)
	}
	return ack.Sequence
}

// Publish adds messages as fast as the log takes them, without guarding any
// owner's version, and returns when all are stored.
func (l *Log) Publish(t testing.TB, messages ...Message) {
	t.Helper()
	answers := make([]jetstream.PubAckFuture, len(messages))
	for i, m := range messages {
		var err error
		if answers[i], err = l.js.PublishMsgAsync(&nats.Msg{Subject: m.Subject(), Data: m.Payload(t)}, jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatalf("world: %v", err)
		}
	}
	late := time.After(time.Minute)
	for _, answer := range answers {
		select {
		case <-answer.Ok():
		case err := <-answer.Err():
			t.Fatalf("world: %v", err)
		case <-late:
			t.Fatal("world: the log does not answer")
		}
	}
}

// Message is one command's outcome.
type Message struct {
	Family events.Family
	Kind   events.SubjectKind
	Events []events.Event
}

// Subject is where the message goes.
func (m Message) Subject() string {
	return events.Subject{Family: m.Family, Owner: m.Events[0].Owner, Kind: m.Kind}.String()
}

// Payload is its bytes.
func (m Message) Payload(t testing.TB) []byte {
	t.Helper()
	payload, err := events.EncodeBatch(m.Events)
	if err != nil {
		t.Fatalf("world: %v", err)
	}
	return payload
}

// Actor is an owner who acts. It counts versions and leaves as the command
// side would.
type Actor struct {
	Owner events.Owner

	mu            sync.Mutex
	version       int
	chainVersion  int
	leaves        uint64
	seq, chainSeq uint64
	now           time.Time
}

// NewActor makes an owner with a random key.
func NewActor() *Actor {
	var key [32]byte
	_, _ = rand.Read(key[:])
	return &Actor{Owner: events.OwnerFromBytes(key), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

// NumberedActor makes the same owner every time.
func NumberedActor(n int) *Actor {
	a := NewActor()
	a.Owner = events.OwnerFromBytes(sha256.Sum256([]byte{'o', byte(n >> 16), byte(n >> 8), byte(n)}))
	return a
}

// Say makes a message of the owner out of payloads, in the ledger family or in
// the chain's, by what the first payload is.
func (a *Actor) Say(data ...events.Data) Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.say(data...)
}

func (a *Actor) say(data ...events.Data) Message {
	m := Message{Family: events.FamilyLedger, Kind: kindOf(data[len(data)-1])}
	if m.Kind == events.KindBatch || m.Kind == events.KindStake {
		m.Family = events.FamilyChain
	}
	version := &a.version
	if m.Family == events.FamilyChain {
		version = &a.chainVersion
	}
	*version++
	a.now = a.now.Add(time.Millisecond)
	command := UUID()
	for _, d := range data {
		m.Events = append(m.Events, events.Event{
			ID: UUID(), Source: "/test", Owner: a.Owner, Time: events.At(a.now),
			OwnerVersion: *version, CommandID: command, Data: d,
		})
	}
	return m
}

func kindOf(data events.Data) events.SubjectKind {
	for _, d := range events.Catalogue() {
		if d.Type == data.EventType() {
			return d.Kinds[0]
		}
	}
	panic("unknown event")
}

// Write is a memory with the given metadata, the next leaf of the owner.
func (a *Actor) Write(metadata string) Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.say(a.memory(metadata))
}

func (a *Actor) memory(metadata string) *events.MemoryWritten {
	m := &events.MemoryWritten{
		MemoryID: UUID(), LeafIndex: a.leaves, LeafHash: LeafHash(a.Owner, a.leaves), LeafVersion: 1,
		Metadata: jsontext.Value(metadata), Sealed: []byte("sealed \x00 " + string(a.Owner)),
	}
	a.leaves++
	return m
}

// Memory is the payload of the owner's next leaf, for a message of several.
func (a *Actor) Memory(metadata string) *events.MemoryWritten {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.memory(metadata)
}

// Leaves is how many the owner has written.
func (a *Actor) Leaves() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leaves
}

// Append says something through the log's guarded append and returns its
// sequence.
func (a *Actor) Append(t testing.TB, log eventlog.Appender, data ...events.Data) uint64 {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.append(t, log, a.say(data...))
}

// AppendMemory appends one leaf.
func (a *Actor) AppendMemory(t testing.TB, log eventlog.Appender, metadata string) (*events.MemoryWritten, uint64) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.memory(metadata)
	return m, a.append(t, log, a.say(m))
}

func (a *Actor) append(t testing.TB, log eventlog.Appender, m Message) uint64 {
	t.Helper()
	expected := &a.seq
	if m.Family == events.FamilyChain {
		expected = &a.chainSeq
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	seq, err := eventlog.AppendAndWait(ctx, log, eventlog.Append{
		Family: m.Family, Owner: a.Owner, Kind: m.Kind, CommandID: m.Events[0].CommandID,
		Expected: *expected, Payload: m.Payload(t),
	})
	if err != nil {
		t.Fatalf("world: append: %v", err)
	}
	*expected = seq
	return seq
}

// LeafHash is the hash of an owner's leaf in this world.
func LeafHash(owner events.Owner, index uint64) events.Hash {
	return sha256.Sum256(binary.BigEndian.AppendUint64([]byte(owner), index))
}

// Hash is a hash of anything.
func Hash(s string) events.Hash { return sha256.Sum256([]byte(s)) }

// UUID is a random id of version 7's form.
func UUID() string {
	var id column.UUID
	_, _ = rand.Read(id[:])
	binary.BigEndian.PutUint64(id[:8], uint64(time.Now().UnixMilli())<<16|0x7000|uint64(id[7]))
	id[8] = id[8]&0x3f | 0x80
	return column.UUIDText(id)
}

// Eventually waits until check returns nil, woken by nothing but time; it is
// for what gives no signal.
func Eventually(t testing.TB, within time.Duration, check func() error) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(within)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("not in %s: %v", within, err)
		}
	}
}

// Running runs f beside the test and returns how to end it; the test ends it
// in any case.
func Running(t testing.TB, f func(context.Context) error) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var once sync.Once
	var err error
	stop = func() error {
		once.Do(func() {
			cancel()
			select {
			case err = <-done:
			case <-time.After(30 * time.Second):
				err = fmt.Errorf("did not end within 30 s of being told to")
			}
		})
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

// Quiet is a logger of nothing.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
