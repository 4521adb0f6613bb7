package fence

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	passed   prometheus.Counter
	waits    prometheus.Histogram
	waiting  prometheus.Gauge
	expired  prometheus.Counter
	backward prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "ledger_fence_" + name, Help: help})
	}
	m := &metrics{
		passed:   counter("passed_total", "Reads that found the read models caught up."),
		expired:  counter("expired_total", "Reads that gave up waiting."),
		backward: counter("backward_total", "Times the checkpoint was found behind what was known."),
		waiting:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "ledger_fence_waiting", Help: "Reads that wait now."}),
		waits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ledger_fence_wait_seconds", Help: "How long reads waited that had to.",
			Buckets: prometheus.ExponentialBuckets(0.0002, 2, 16),
		}),
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.passed, m.waits, m.waiting, m.expired, m.backward} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
