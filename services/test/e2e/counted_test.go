package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/core"
	"github.com/memory-ledger/ledger/services/extension"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/httpapi"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/run/assembly"
	"github.com/memory-ledger/ledger/services/signin"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// work counts the operations that a request took, except computing.
type work struct {
	Queries   int64 // by the APIs: lookups of credentials and grants
	Loads     int64 // of an owner's state from the read model
	Head      int64 // log requests: the log's length
	OwnerHead int64 // log requests: an owner's last sequence
	OwnerTail int64 // log requests: an owner's newest events
	Newest    int64 // log requests: an owner's newest message
	Appends   int64
}

// counted is one replica of each API beside a stack, on the same log and database. It
// counts the work of its requests. It has no background work, so the counts are exact.
type counted struct {
	Core, Extension *stacktest.Client
	Grants          *grant.Service

	queries, loads, head, ownerHead, ownerTail, newest, appends atomic.Int64

	ahead atomic.Int64 // nanoseconds by which the clock is ahead

	// measured is closed at the first request for the log's length, which the fence
	// makes.
	measured chan struct{}
	first    sync.Once
}

// during returns the work of a request.
func (c *counted) during(do func()) work {
	before := c.work()
	do()
	after := c.work()
	return work{
		after.Queries - before.Queries, after.Loads - before.Loads, after.Head - before.Head,
		after.OwnerHead - before.OwnerHead, after.OwnerTail - before.OwnerTail, after.Newest - before.Newest,
		after.Appends - before.Appends,
	}
}

func (c *counted) work() work {
	return work{
		c.queries.Load(), c.loads.Load(), c.head.Load(), c.ownerHead.Load(), c.ownerTail.Load(), c.newest.Load(),
		c.appends.Load(),
	}
}

// later runs do with the clock set ahead.
func (c *counted) later(by time.Duration, do func()) {
	c.ahead.Store(int64(by))
	defer c.ahead.Store(0)
	do()
}

func (c *counted) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

type countedLog struct {
	eventlog.Log
	*counted
}

func (l countedLog) Head(ctx context.Context) (uint64, error) {
	l.head.Add(1)
	l.first.Do(func() { close(l.measured) })
	return l.Log.Head(ctx)
}

func (l countedLog) OwnerHead(ctx context.Context, f events.Family, o events.Owner) (uint64, error) {
	l.ownerHead.Add(1)
	return l.Log.OwnerHead(ctx, f, o)
}

func (l countedLog) OwnerTail(ctx context.Context, f events.Family, o events.Owner, after uint64, yield func(eventlog.Record) error) error {
	l.ownerTail.Add(1)
	return l.Log.OwnerTail(ctx, f, o, after, yield)
}

func (l countedLog) OwnerNewest(ctx context.Context, f events.Family, o events.Owner, kind events.SubjectKind) (eventlog.Record, bool, error) {
	l.newest.Add(1)
	return l.Log.OwnerNewest(ctx, f, o, kind)
}

func (l countedLog) Append(ctx context.Context, a eventlog.Append) (uint64, error) {
	l.appends.Add(1)
	return l.Log.Append(ctx, a)
}

type countedQuerier struct {
	schema.Querier
	*counted
}

func (q countedQuerier) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	q.queries.Add(1)
	return q.Querier.Query(ctx, sql, args...)
}

func (q countedQuerier) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	q.queries.Add(1)
	return q.Querier.QueryRow(ctx, sql, args...)
}

func (q countedQuerier) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	q.queries.Add(1)
	return q.Querier.SendBatch(ctx, b)
}

type countedLoader struct {
	command.Loader
	*counted
}

func (l countedLoader) Load(ctx context.Context, owner events.Owner) (*command.State, error) {
	l.loads.Add(1)
	return l.Loader.Load(ctx, owner)
}

// startCounted runs the counted replicas until the test ends.
func startCounted(t *testing.T, s *stacktest.Stack) *counted {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	ctx, stop := context.WithCancel(context.Background())
	base, err := assembly.NewBase(ctx, s.Config, logger, assembly.Dial(s.Config))
	if err != nil {
		t.Fatal(err)
	}
	d, err := assembly.NewAPIServer(ctx, base, assembly.Neighbors{})
	if err != nil {
		t.Fatal(err)
	}
	c := &counted{measured: make(chan struct{})}
	log, query := countedLog{base.Log, c}, countedQuerier{base.Pool, c}
	// The fence's poll asks for the log's length each second, which would count as a
	// request's work.
	f, err := fence.New(base.Pool, log, fence.Options{Logger: logger, Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	commands, err := command.NewExecutor(command.Config{
		Log: log, Loader: countedLoader{command.ReadModel{Pool: base.Pool, Now: c.now}, c}, Source: "/counted", Now: c.now, NewID: assembly.NewID,
	})
	if err != nil {
		t.Fatal(err)
	}
	memories := memory.New(memory.Config{Commands: commands, Keys: d.Keys, Pool: base.Pool, NewID: assembly.NewID})
	c.Grants = grant.New(grant.Config{
		Commands: commands, Memories: memories, Query: query, Fence: f, BaseURL: "http://counted", Now: c.now, NewID: assembly.NewID,
	})
	ended := make(chan error, 3)
	go func() { ended <- f.Run(ctx) }()
	serve := func(api contracttest.API, document []byte, mount func(*httpapi.App)) *stacktest.Client {
		app := httpapi.New(httpapi.Config{
			Service: string(api), Log: logger, Registry: prometheus.NewRegistry(), OpenAPI: document,
			ShowCauses: api == contracttest.Extension, NewID: assembly.NewID,
		})
		mount(app)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { ended <- app.Serve(ctx, listener, time.Second) }()
		return stacktest.NewClient(t, api, "http://"+listener.Addr().String())
	}
	tokens := signin.NewSignedTokens([]byte(s.Config.JWTSecret), c.now)
	c.Core = serve(contracttest.Core, core.OpenAPI, (&core.API{
		Access: access.NewCore(query, f, tokens, c.now), Memories: memories, Commands: commands, Query: query, Now: c.now, NewID: assembly.NewID,
	}).Mount)
	c.Extension = serve(contracttest.Extension, extension.OpenAPI, (&extension.API{
		Access: access.NewExtension(query, f, c.now), Memories: memories, Commands: commands, Grants: c.Grants,
	}).Mount)
	t.Cleanup(func() {
		stop()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(fmt.Errorf("counted: %w", err))
			}
		}
		base.Close()
	})
	// The fence learns positions once it listens; until then it would query the database
	// itself. After that it asks for the log's length, which is no request's work.
	head, err := base.Log.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Wait(ctx, head); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.measured:
	case <-time.After(2 * time.Minute):
		t.Fatal("the fence did not ask how long the log is")
	}
	return c
}
