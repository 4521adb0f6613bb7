package projector_test

import (
	"testing"

	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel"
)

// TestAReplayEndsWithItsConnection: it writes nothing, and nothing keeps reading.
func TestAReplayEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	log.Publish(t, fixture.NewHistory(5, 3).Messages(500)...)
	r := replayed(t, pool, log.Replayed(), readmodel.All()...)
	must(t, r.Conn.Close(t.Context()))
	if err := r.To(t.Context(), head(t, log)); err == nil || r.At() != 0 {
		t.Errorf("at %d, %v", r.At(), err)
	}
}
