package assembly

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events/eventlog"
	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

const replicasTimeout = time.Second

// replicas caches the state of the log's replicas for ten seconds: probes and scrapes are
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
	if time.Since(r.asked) < 10*time.Second {
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

// registerReplicas exports how large the log is, and how many copies of it are missing.
// Nothing else shows the second number, because the service goes on without the missing
// copies.
func (b *Base) registerReplicas() {
	b.replicas = &replicas{ask: b.Stream.Replication}
	gauge := func(name, help string, of func(eventlog.Replication) float64) {
		b.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help + "; NaN while the log does not say."}, func() float64 {
			is, err := b.replicas.look()
			if err != nil {
				return math.NaN()
			}
			return of(is)
		}))
	}
	gauge("ledger_log_replicas_missing", "Replicas of the log that should be there and are away, or far behind",
		func(is eventlog.Replication) float64 { return float64(is.Wanted - is.Current()) })
	gauge("ledger_log_bytes", "Size of the log on each of its nodes", func(is eventlog.Replication) float64 { return float64(is.Bytes) })
}

// approachLeader moves the connection to the node that leads the log: elsewhere, each
// message and its acknowledgement take a way through one node more. It is for the start: a
// connection stays where it is when another node takes the lead, because moving it would
// interrupt what is under way.
func (b *Base) approachLeader(ctx context.Context) { b.moveTo(ctx, true) }

// turn keeps a projector that works near the log's leader, and its standby at another node.
// So one node that fails does not take both.
func (b *Base) turn(ctx context.Context, working bool) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	b.moveTo(ctx, working)
}

// moveTo moves the connection to the log's leader, or away from it. It tries each address
// of NATS_URL once, and stays where it is if none fits.
func (b *Base) moveTo(ctx context.Context, leader bool) {
	if !natsconf.Clustered(b.NATS) {
		return
	}
	connected := b.NATS.StatusChanged(nats.CONNECTED)
	defer b.NATS.RemoveStatusListener(connected)
	for range b.NATS.Servers() {
		is, err := b.Stream.Replication(ctx)
		if err != nil || (is.Replicas[0].Node == b.NATS.ConnectedServerName()) == leader || b.NATS.ForceReconnect() != nil {
			return
		}
		select {
		case <-connected:
		case <-ctx.Done():
			return
		}
	}
}
