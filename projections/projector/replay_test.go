package projector_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
)

// replayer returns a replayer for a pool's schema, with one or two connections.
func replayer(t *testing.T, pool *pgxpool.Pool, log *fixture.Log, connections int) *projector.Replayer {
	t.Helper()
	var conns [2]*pgx.Conn
	for i := range connections {
		conn, err := pool.Acquire(t.Context())
		must(t, err)
		t.Cleanup(conn.Release)
		conns[i] = conn.Conn()
	}
	r, err := projector.NewReplayer(t.Context(), conns[0], log.Replayed(), readmodel.All())
	must(t, err)
	r.Ahead, r.Leading = conns[1], []projector.Projection{memories.Projection{}}
	return r
}

// TestTwoConnectionsReplayWhatOneDoes: the replay has several slices, with tiles and
// pages that begin in one slice and end in another. If the connection ahead is closed,
// the other connection writes nothing, and nothing keeps running.
func TestTwoConnectionsReplayWhatOneDoes(t *testing.T) {
	t.Parallel()
	url, pool, log := empty(t)
	var messages []fixture.Message
	actors := []*fixture.Actor{fixture.NewActor(), fixture.NewActor(), fixture.NewActor()}
	for i := range 24_000 {
		messages = append(messages, actors[i%len(actors)].Write(`{"n":1}`))
	}
	log.Publish(t, messages...)
	log.Publish(t, fixture.NewHistory(5, 3).Messages(500)...)
	end := head(t, log)

	one := replayer(t, pool, log, 1)
	parts := 0
	one.Applied = func(uint64) { parts++ }
	must(t, one.To(t.Context(), end))
	if parts != 3 {
		t.Errorf("24,500 messages are committed in %d parts", parts)
	}
	twoPool := fixture.Pool(t, url, "two")
	two := replayer(t, twoPool, log, 2)
	if err := two.To(t.Context(), end); err != nil || two.At() != end {
		t.Fatalf("at %d, %v", two.At(), err)
	}
	sameRows(t, pool, twoPool)

	without := replayer(t, fixture.Pool(t, url, "without"), log, 2)
	must(t, without.Ahead.Close(t.Context()))
	if err := without.To(t.Context(), end); err == nil || without.At() != 0 {
		t.Fatalf("at %d, %v", without.At(), err)
	}
	if is, err := projector.ReadCheckpoint(t.Context(), without.Conn); err != nil || is.Seq != 0 {
		t.Errorf("the schema is at %d, %v", is.Seq, err)
	}

	// The replayer also stops reading if it can no longer write.
	for connections, name := range map[int]string{1: "alone", 2: "left_behind"} {
		without := replayer(t, fixture.Pool(t, url, name), log, connections)
		must(t, without.Conn.Close(t.Context()))
		if err := without.To(t.Context(), end); err == nil || without.At() != 0 {
			t.Errorf("by %d connections: at %d, %v", connections, without.At(), err)
		}
	}
}
