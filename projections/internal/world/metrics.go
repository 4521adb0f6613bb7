package world

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is what a registry's families say; of a histogram, how often. Each is to have
// one series.
func Metrics(t testing.TB, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		m := f.GetMetric()[0]
		values[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return values
}
