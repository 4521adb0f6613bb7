package assembly

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/tracing"
	"github.com/memory-ledger/ledger/projections/fence"
)

// provisioned is a log that is followed through a consumer that an administrator created.
type provisioned struct {
	eventlog.Log
	consumer string
}

// newFence returns a fence over the read models and the log.
func (b *Base) newFence(o fence.Options) *fence.Fence {
	o.Logger, o.Connection = b.Logger, b.Stream.Connection
	return fence.New(b.Pool, b.Log, o)
}

// fitting is a log that refuses appends, and the reads before them, while the log is
// shorter than the read models: an older copy may have replaced the log.
type fitting struct {
	eventlog.Log
	check   func(context.Context) error
	appends *prometheus.HistogramVec // nil: appends are not timed
}

func newAppends(registerer prometheus.Registerer) *prometheus.HistogramVec {
	appends := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "ledger_append_seconds", Help: "Time until an append was on stable storage, or failed, by outcome.",
		Buckets: prometheus.ExponentialBuckets(0.0002, 2, 16),
	}, []string{"outcome"})
	for _, outcome := range []string{"stored", "conflict", "uncertain", "unavailable", "failed"} {
		appends.WithLabelValues(outcome) // a rate needs the zero before the first append
	}
	registerer.MustRegister(appends)
	return appends
}

func (l fitting) Append(ctx context.Context, a eventlog.Append) (seq uint64, err error) {
	start := time.Now()
	ctx, span := tracing.Start(ctx, "append")
	err = l.check(ctx)
	if err == nil {
		seq, err = l.Log.Append(ctx, a)
	}
	if err == nil && span.IsRecording() {
		span.SetAttributes(tracing.LastSeq.Int64(int64(seq)))
	}
	tracing.End(span, err)
	if l.appends != nil {
		l.appends.WithLabelValues(outcomeOf(err)).Observe(time.Since(start).Seconds())
	}
	return seq, err
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return "stored"
	case errors.Is(err, eventlog.ErrConflict):
		return "conflict"
	case errors.Is(err, eventlog.ErrUncertain):
		return "uncertain"
	case errors.Is(err, eventlog.ErrUnavailable):
		return "unavailable"
	}
	return "failed"
}

func (l fitting) OwnerNewest(ctx context.Context, f events.Family, o events.Owner, kind events.SubjectKind) (eventlog.Record, bool, error) {
	if err := l.check(ctx); err != nil {
		return eventlog.Record{}, false, err
	}
	return l.Log.OwnerNewest(ctx, f, o, kind)
}

func (l fitting) OwnerTail(ctx context.Context, f events.Family, o events.Owner, after uint64, yield func(eventlog.Record) error) error {
	if err := l.check(ctx); err != nil {
		return err
	}
	return l.Log.OwnerTail(ctx, f, o, after, yield)
}

// follower returns the log that a service follows. A user of the service's name may make no
// consumer: there is one of that name.
func (b *Base) follower(service string) eventlog.Log {
	if inboxPrefix(b.Config) != "_INBOX_"+service {
		return b.Log
	}
	return provisioned{b.Log, service}
}

// Follow implements eventlog.Follower. The error says how to make a consumer that is missing.
func (p provisioned) Follow(ctx context.Context, cfg eventlog.FollowConfig, yield func(eventlog.Slice) error) error {
	cfg.Consumer = p.consumer
	err := p.Log.Follow(ctx, cfg, yield)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("the log has no consumer %s: run `ledger provision`: %w", p.consumer, err)
	}
	return err
}
