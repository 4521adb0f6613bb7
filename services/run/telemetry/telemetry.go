// Package telemetry sends spans to an OpenTelemetry collector, if one is
// configured, and never makes a request wait for it.
//
// A span that ends goes into a queue of bounded length, one that finds the
// queue full is dropped and counted. One goroutine sends what is queued. A
// collector that is away, slow or full costs the spans, and nothing else: not
// a request's time, not memory beyond the queue, and no more than a moment at
// the end.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"github.com/memory-ledger/ledger/events/tracing"
)

const (
	queueSpans = 4096
	batchSpans = 512
	// sendTimeout bounds one batch with all its repetitions.
	sendTimeout = 5 * time.Second
	// complainEvery is how often a collector that does not take spans is
	// mentioned in the log.
	complainEvery = time.Minute
	// DefaultGrace is how long Stop may take to send what is queued.
	DefaultGrace = 2 * time.Second
	// longest bounds a text in a span, in bytes.
	longest = 256
)

// Config of an Exporter.
type Config struct {
	// Endpoint is the base URL of an OTLP/HTTP collector, to which /v1/traces
	// is added. Headers, certificates and sampling are configured by the
	// environment variables of the OpenTelemetry specification.
	Endpoint string
	Service  string // service.name
	// Delay is how long a span waits for company; 0 means 1 s.
	Delay      time.Duration
	Grace      time.Duration // bound of Stop; 0 means DefaultGrace
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Exporter makes tracers and sends what their spans were.
type Exporter struct {
	cfg      Config
	provider *trace.TracerProvider
	sender   *sender
}

// Start returns an exporter to the configured collector, which need not be
// there. It connects when there is something to send.
func Start(ctx context.Context, cfg Config) (*Exporter, error) {
	if cfg.Delay <= 0 {
		cfg.Delay = time.Second
	}
	if cfg.Grace <= 0 {
		cfg.Grace = DefaultGrace
	}
	target, err := url.JoinPath(cfg.Endpoint, "v1/traces")
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(target), otlptracehttp.WithTimeout(sendTimeout),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
			Enabled: true, InitialInterval: 200 * time.Millisecond, MaxInterval: time.Second, MaxElapsedTime: sendTimeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	// Report only what the operator configured about the process. Its arguments are
	// private.
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithFromEnv(),
		resource.WithAttributes(attribute.String("service.name", cfg.Service)))
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	s := newSender(exporter, cfg)
	limits := trace.NewSpanLimits()
	limits.AttributeValueLengthLimit, limits.LinkCountLimit = longest, tracing.MaxLinks
	queue := trace.NewBatchSpanProcessor(s, trace.WithMaxQueueSize(queueSpans), trace.WithMaxExportBatchSize(batchSpans),
		trace.WithBatchTimeout(cfg.Delay), trace.WithExportTimeout(sendTimeout))
	provider := trace.NewTracerProvider(trace.WithResource(about), trace.WithRawSpanLimits(limits),
		trace.WithSpanProcessor(counting{queue, s.ended}))
	return &Exporter{cfg: cfg, provider: provider, sender: s}, nil
}

// Tracer returns what makes the spans of a part of the product: "core",
// "projector". Of a nil Exporter it is nil, which is how tracing is off.
func (e *Exporter) Tracer(part string) api.Tracer {
	if e == nil {
		return nil
	}
	return e.provider.Tracer("github.com/memory-ledger/ledger/" + part)
}

// Stop sends what is queued, for as long as the grace allows, and gives up the
// rest. Stopping a nil Exporter does nothing.
func (e *Exporter) Stop() {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Grace)
	defer cancel()
	if err := e.provider.Shutdown(ctx); err != nil {
		e.sender.complain(err)
		// What is on its way to a collector that does not answer is cut off.
		_ = e.sender.SpanExporter.Shutdown(ctx)
	}
}

// counting counts the spans on their way into the queue: those that never come
// to the sender were dropped.
type counting struct {
	trace.SpanProcessor
	ended prometheus.Counter
}

// OnEnd implements trace.SpanProcessor.
func (c counting) OnEnd(span trace.ReadOnlySpan) {
	c.ended.Inc()
	c.SpanProcessor.OnEnd(span)
}

// sender counts what is sent, and keeps failures from the library's own log.
type sender struct {
	trace.SpanExporter
	logger       *slog.Logger
	ended        prometheus.Counter
	sent, failed prometheus.Counter
	complained   atomic.Int64 // unix nanoseconds
}

func newSender(exporter trace.SpanExporter, cfg Config) *sender {
	sends := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ledger_trace_sends_total", Help: "Spans that were sent to the collector, by whether it took them.",
	}, []string{"outcome"})
	s := &sender{
		SpanExporter: exporter, logger: cfg.Logger,
		ended: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ledger_trace_spans_total", Help: "Spans that ended. Those that were not sent were dropped: the queue was full.",
		}),
		sent: sends.WithLabelValues("taken"), failed: sends.WithLabelValues("failed"),
	}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(s.ended, sends)
	}
	return s
}

// ExportSpans implements trace.SpanExporter. A failure ends here.
func (s *sender) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	if err := s.SpanExporter.ExportSpans(ctx, spans); err != nil {
		s.failed.Add(float64(len(spans)))
		s.complain(err)
		return nil
	}
	s.sent.Add(float64(len(spans)))
	return nil
}

func (s *sender) complain(err error) {
	now, last := time.Now().UnixNano(), s.complained.Load()
	if (last == 0 || now-last >= int64(complainEvery)) && s.complained.CompareAndSwap(last, now) {
		s.logger.Warn("the trace collector does not take spans; they are dropped", "err", err)
	}
}
