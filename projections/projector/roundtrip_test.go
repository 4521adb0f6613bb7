package projector_test

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
)

// wire counts the round trips of all connections made through it: how often the client
// sends after it received.
type wire struct {
	mu       sync.Mutex
	trips    int
	speaking bool
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	return &wireConn{conn, w}, err
}

func (w *wire) note(speaking bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if speaking && !w.speaking {
		w.trips++
	}
	w.speaking = speaking
}

func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trips
}

type wireConn struct {
	net.Conn
	wire *wire
}

func (c *wireConn) Write(b []byte) (int, error) {
	c.wire.note(true)
	return c.Conn.Write(b)
}

func (c *wireConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.wire.note(false)
	}
	return n, err
}

// TestALiveSliceIsOneRoundTrip, with any events, unless the slice fills a tile of the
// tree.
func TestALiveSliceIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	_, plain := fixture.Database(t)
	var w wire
	pool := fixture.Reopened(t, plain, func(c *pgx.ConnConfig) { c.DialFunc = w.dial })
	log := fixture.NewLog(t)
	applied := make(chan uint64, 100)
	project(t, pool, log, func(c *projector.Config) { c.Applied = func(position uint64) { applied <- position } })
	history := fixture.NewHistory(31, 20)
	seq := uint64(0)
	say := func(n int) (slices int) {
		log.Publish(t, history.Messages(n)...)
		seq += uint64(n)
		for slices = 1; <-applied < seq; slices++ {
		}
		return slices
	}
	// Statements are prepared at their first use, which takes extra round trips.
	say(300)
	for _, n := range []int{1, 10, 50} {
		spare := 100
		for range 20 {
			before := w.count()
			slices := say(n)
			// The projector's check of its connection, once a second, may be among them.
			spare = min(spare, w.count()-before-slices)
		}
		if spare != 0 {
			t.Errorf("%d messages took %d round trips more than slices", n, spare)
		}
	}
}
