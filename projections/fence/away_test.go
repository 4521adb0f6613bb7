package fence_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/schema"
)

// server is a minimal database for a fence, on connections that obey a test's clock. Its
// checkpoint is at sequence 7. It can accept all input and answer nothing, as a real
// server does only if the network drops its answers.
type server struct {
	silent atomic.Bool
	cut    time.Duration // how long a connection lasts; 0 means until the client closes it
}

// pool returns a pool whose connections go to the server, or fail as dial says. So do
// connections opened with the pool's configuration.
func (s *server) pool(t *testing.T, dial func(context.Context) error) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig("postgres://nobody@server/none?sslmode=disable&search_path=" + schema.Live)
	must(t, err)
	cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	// A client that connects looks up the address first. A client that only cancels a
	// query does not.
	cfg.ConnConfig.LookupFunc = func(ctx context.Context, host string) ([]string, error) { return []string{host}, dial(ctx) }
	cfg.ConnConfig.DialFunc = func(context.Context, string, string) (net.Conn, error) {
		client, conn := net.Pipe()
		go func() { _ = s.serve(conn) }() // ends with the connection
		return client, nil
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	must(t, err)
	return pool
}

func (s *server) serve(conn net.Conn) error {
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	if first, err := b.ReceiveStartupMessage(); err != nil {
		return err
	} else if _, starts := first.(*pgproto3.StartupMessage); !starts {
		return nil // a request to cancel a query
	}
	if s.cut > 0 {
		defer time.AfterFunc(s.cut, func() { _ = conn.Close() }).Stop()
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	b.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	for {
		b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		if !s.silent.Load() {
			if err := b.Flush(); err != nil {
				return err
			}
		}
		said, err := b.Receive()
		if err != nil {
			return err
		}
		switch said := said.(type) {
		case *pgproto3.Terminate:
			return nil
		case *pgproto3.Query:
			if strings.Contains(said.String, "FROM checkpoint") {
				sendCheckpoint(b)
			}
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT")})
		}
	}
}

func sendCheckpoint(b *pgproto3.Backend) {
	const text, number = 25, 20 // PostgreSQL's type numbers
	var fields []pgproto3.FieldDescription
	for _, kind := range []uint32{text, number, text} {
		fields = append(fields, pgproto3.FieldDescription{Name: []byte("x"), DataTypeOID: kind, DataTypeSize: -1, TypeModifier: -1})
	}
	b.Send(&pgproto3.RowDescription{Fields: fields})
	b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("generation"), []byte("7"), nil}})
}

// listens runs a fence until the returned function is called.
func listens(t *testing.T, f *fence.Fence) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestADatabaseThatFallsSilentIsNotBelieved: its connections stay open, and it accepts
// every query and answers none. The fence trusts the last position until the first query
// has been unanswered for five seconds. From then on every wait fails at its timeout.
func TestADatabaseThatFallsSilentIsNotBelieved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const poll, patience, timeout = time.Second, 5 * time.Second, 3 * time.Second
		var s server
		pool := s.pool(t, func(context.Context) error { return nil })
		defer pool.Close()
		f := newFence(t, pool, &heads{head: 7}, func(o *fence.Options) { o.Poll, o.Timeout = poll, timeout })
		defer listens(t, f)()
		synctest.Wait()
		s.silent.Store(true)
		if err := f.WaitAll(t.Context()); err != nil {
			t.Fatalf("while it is believed: %v", err)
		}
		time.Sleep(poll + patience - time.Second) // of the bubble's clock
		synctest.Wait()
		if err := f.Wait(t.Context(), 7); err != nil {
			t.Errorf("the fence gave up too soon: %v", err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for name, wait := range map[string]func() error{
			"for all":        func() error { return f.WaitAll(t.Context()) },
			"for a sequence": func() error { return f.Wait(t.Context(), 7) },
		} {
			begun := time.Now()
			err := wait()
			if took := time.Since(begun); !errors.Is(err, fence.ErrBehind) || !strings.Contains(err.Error(), "can't be reached") || took != timeout {
				t.Errorf("who waits %s was told after %s: %v", name, took, err)
			}
		}
		s.silent.Store(false)
		time.Sleep(2 * patience) // queries sent before stay unanswered
		if err := f.Wait(t.Context(), 7); err != nil {
			t.Errorf("it answers again, and who waits is told: %v", err)
		}
	})
}
