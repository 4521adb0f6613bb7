package assembly

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/memory-ledger/ledger/events/eventlog"
)

// TestReplicasAreAskedForSeldom: many probes and scrapes send one request. If the log
// does not answer, nothing is known about its replicas.
func TestReplicasAreAskedForSeldom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		is      eventlog.Replication
		err     error
		missing float64
		shown   bool
	}{
		"one is missing": {is: eventlog.Replication{Wanted: 3, Replicas: []eventlog.Replica{{Node: "a"}, {Node: "b"}, {Node: "c", Missing: "it is away", Lost: true}}}, missing: 1, shown: true},
		"none is":        {is: eventlog.Replication{Wanted: 3, Replicas: []eventlog.Replica{{Node: "a"}, {Node: "b"}, {Node: "c"}}}},
		"no answer":      {err: errors.New("no answer"), missing: math.NaN()},
	} {
		asked := 0
		b := &Base{Registry: prometheus.NewRegistry(), Log: &eventlog.JetStream{}}
		b.registerReplicas()
		b.replicas.ask = func(context.Context) (eventlog.Replication, error) { asked++; return c.is, c.err }
		for range 3 {
			if err := b.replicas.check(t.Context()); err != nil != c.shown {
				t.Errorf("%s: %v", name, err)
			}
			families, err := b.Registry.Gather()
			if err != nil || len(families) != 1 {
				t.Fatal(families, err)
			}
			is := families[0].GetMetric()[0].GetGauge().GetValue()
			if is != c.missing && !(math.IsNaN(is) && math.IsNaN(c.missing)) {
				t.Errorf("%s: %v are missing", name, is)
			}
		}
		if asked != 1 {
			t.Errorf("%s: asked %d times", name, asked)
		}
	}
}
