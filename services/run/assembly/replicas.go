package assembly

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events/eventlog"
)

const (
	replicasAge     = 10 * time.Second
	replicasTimeout = time.Second
)

// replicas caches the state of the log's replicas for replicasAge: probes and scrapes are
// frequent, and for each answer the log's leader must describe the stream.
type replicas struct {
	ask func(context.Context) (eventlog.Replication, error)

	mu    sync.Mutex
	asked time.Time
	last  eventlog.Replication
	err   error
}

func (r *replicas) look() (eventlog.Replication, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) < replicasAge {
		return r.last, r.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), replicasTimeout)
	defer cancel()
	r.last, r.err = r.ask(ctx)
	r.asked = time.Now()
	return r.last, r.err
}

// check is a probe. It ignores a log that does not answer, because another probe reports
// that.
func (r *replicas) check(context.Context) error {
	is, err := r.look()
	if err != nil {
		return nil
	}
	return is.Err()
}

// registerReplicas exports how many copies of the log are missing. Nothing else shows
// this number, because the service goes on without the missing copies.
func (b *Base) registerReplicas() {
	b.replicas = &replicas{ask: b.Stream.Replication}
	b.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ledger_log_replicas_missing",
		Help: "Replicas of the log that should be there and are away, or far behind; NaN while the log does not say.",
	}, func() float64 {
		is, err := b.replicas.look()
		if err != nil {
			return math.NaN()
		}
		return float64(is.Wanted - is.Current())
	}))
}
