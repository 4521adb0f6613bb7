package fence_test

import (
	"net"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/schema"
)

// A database that accepts a connection and does not answer is tried again, and does not
// keep the fence from listening forever.
func TestASilentDatabaseIsTriedAgain(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	taken := make(chan net.Conn)
	go func() {
		defer close(taken)
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			taken <- conn
		}
	}()
	defer func() {
		_ = silent.Close()
		for conn := range taken {
			_ = conn.Close()
		}
	}()
	pool, err := schema.OpenPool(t.Context(), "postgres://nobody@"+silent.Addr().String()+"/none?sslmode=disable", schema.Live, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	stop := fixture.Running(t, newFence(t, pool, &heads{}).Run)
	for range 2 {
		select {
		case conn := <-taken:
			defer conn.Close()
		case <-time.After(2 * time.Minute):
			t.Fatal("nobody connects")
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
