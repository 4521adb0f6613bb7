package telemetry_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/memory-ledger/ledger/events/tracing"
	"github.com/memory-ledger/ledger/services/run/telemetry"
)

func start(t *testing.T, endpoint string, registry *prometheus.Registry, log io.Writer) *telemetry.Exporter {
	t.Helper()
	e, err := telemetry.Start(t.Context(), telemetry.Config{
		Endpoint: endpoint, Service: "test", Delay: time.Millisecond, Grace: 200 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(log, nil)), Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// count returns the sum of a counter's series.
func count(t *testing.T, registry *prometheus.Registry, name string) (sum int) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += int(m.GetCounter().GetValue())
			}
		}
	}
	return sum
}

// flood ends more spans than any queue here holds, and returns how long that
// took.
func flood(e *telemetry.Exporter) time.Duration {
	tracer, begun := e.Tracer("test"), time.Now()
	for range 3 * 4096 {
		_, span := tracing.Begin(context.Background(), tracer, "x", "", trace.SpanKindServer, nil)
		span.End()
	}
	return time.Since(begun)
}

type safeLog struct {
	sync.Mutex
	strings.Builder
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Builder.Write(p)
}

// TestNobodyWaitsForACollector: with a collector that hangs or is unreachable, ending a
// span does not wait, and Stop returns in time. While a collector hangs, the spans that
// the queue can't hold are dropped.
func TestNobodyWaitsForACollector(t *testing.T) {
	t.Parallel()
	hung := make(chan struct{}, 64)
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		hung <- struct{}{}
		<-request.Context().Done()
	}))
	t.Cleanup(hanging.Close)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := nobody.Close(); err != nil {
		t.Fatal(err)
	}
	for name, endpoint := range map[string]string{"hangs": hanging.URL, "is away": "http://" + nobody.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry, log := prometheus.NewRegistry(), &safeLog{}
			e := start(t, endpoint, registry, log)
			hangs := endpoint == hanging.URL
			if hangs {
				_, span := tracing.Begin(t.Context(), e.Tracer("test"), "x", "", trace.SpanKindServer, nil)
				span.End()
				<-hung // from now on the sender waits, and the queue only fills
			}
			// Waiting for the collector would take 5 s for each of 16 batches.
			if took := flood(e); took > time.Minute {
				t.Errorf("ending spans took %v", took)
			}
			begun := time.Now()
			e.Stop()
			if took := time.Since(begun); took > time.Minute {
				t.Errorf("stopping took %v", took)
			}
			ended, sent := count(t, registry, "ledger_trace_spans_total"), count(t, registry, "ledger_trace_sends_total")
			if ended < 3*4096 || hangs && sent >= ended {
				t.Errorf("%d spans ended, %d left the queue", ended, sent)
			}
			log.Lock()
			defer log.Unlock()
			if n := strings.Count(log.String(), "\n"); n != 1 {
				t.Errorf("%d lines of complaint:\n%s", n, log.String())
			}
		})
	}
}

func TestWhatIsQueuedIsSentAtTheEnd(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	requests := 0
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if requests++; request.URL.Path != "/base/v1/traces" {
			t.Errorf("sent to %s", request.URL.Path)
		}
	}))
	t.Cleanup(collector.Close)
	registry := prometheus.NewRegistry()
	e, err := telemetry.Start(t.Context(), telemetry.Config{
		Endpoint: collector.URL + "/base/", Service: "test", Delay: time.Hour, Logger: slog.New(slog.DiscardHandler), Registerer: registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, span := tracing.Begin(t.Context(), e.Tracer("test"), "x", "", trace.SpanKindServer, nil)
	span.End()
	e.Stop()
	mu.Lock()
	defer mu.Unlock()
	if sent := count(t, registry, "ledger_trace_sends_total"); requests != 1 || sent != 1 {
		t.Errorf("%d requests, %d spans", requests, sent)
	}
}

// TestOffIsNil: without an exporter, the tracer is nil too, and Stop does nothing.
func TestOffIsNil(t *testing.T) {
	t.Parallel()
	var e *telemetry.Exporter
	if e.Tracer("core") != nil {
		t.Error("a tracer")
	}
	e.Stop()
}
