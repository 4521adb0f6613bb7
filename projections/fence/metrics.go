package fence

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	passed     prometheus.Counter
	waits      prometheus.Histogram
	waiting    prometheus.Gauge
	expired    prometheus.Counter
	reconnects prometheus.Counter
	backward   prometheus.Counter
	exchanged  prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, f *Fence) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "ledger_fence_" + name, Help: help})
	}
	m := &metrics{
		passed:     counter("passed_total", "Reads that found the read models caught up."),
		expired:    counter("expired_total", "Reads that gave up waiting."),
		reconnects: counter("reconnects_total", "Times the listening connection was lost."),
		backward:   counter("backward_total", "Times the checkpoint was found behind what was known."),
		exchanged:  counter("exchanged_total", "Times the read models were found to be others than before, as after a rebuild."),
		waiting:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "ledger_fence_waiting", Help: "Reads that wait now."}),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ledger_fence_wait_seconds", Help: "How long reads waited that had to.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, 16),
		}),
	}
	if registerer == nil {
		return m, nil
	}
	position := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "ledger_fence_position", Help: "Sequence up to which all owners are known to be projected."},
		func() float64 { return float64(f.Position()) })
	for _, c := range []prometheus.Collector{m.passed, m.waits, m.waiting, m.expired, m.reconnects, m.backward, m.exchanged, position} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
