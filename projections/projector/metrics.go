package projector

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	slices   prometheus.Counter
	records  prometheus.Counter
	failures prometheus.Counter
	apply    prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer, r *Runner) (*metrics, error) {
	m := &metrics{
		slices:   prometheus.NewCounter(prometheus.CounterOpts{Name: "ledger_projector_slices_total", Help: "Slices of the log committed to the read models."}),
		records:  prometheus.NewCounter(prometheus.CounterOpts{Name: "ledger_projector_messages_total", Help: "Messages of the log committed to the read models."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "ledger_projector_failures_total", Help: "Times the projector failed and started again."}),
		apply: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ledger_projector_apply_seconds", Help: "Time to apply and commit one slice.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, 16),
		}),
	}
	if registerer == nil {
		return m, nil
	}
	gauge := func(name, help string, value func(Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(r.Status()) })
	}
	for _, c := range []prometheus.Collector{
		m.slices, m.records, m.failures, m.apply,
		gauge("ledger_projector_lag_messages", "Messages of the log that are not applied yet.", func(s Status) float64 { return float64(s.Head - s.Position) }),
		gauge("ledger_projector_lag_seconds", "How long ago the log held a message that is not applied yet.", func(s Status) float64 { return s.Lag.Seconds() }),
		gauge("ledger_projector_active", "1 where this projector works, 0 where it stands by or failed.", func(s Status) float64 {
			if s.Works() {
				return 1
			}
			return 0
		}),
	} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
