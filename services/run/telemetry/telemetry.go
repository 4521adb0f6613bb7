// Package telemetry sends spans to an OpenTelemetry collector, if one is
// configured, and never makes a request wait for it.
//
// A span that ends goes into a queue of bounded length. If the queue is full, the span is
// dropped. One goroutine sends the queued spans. If the collector is
// unreachable, slow or full, the spans are lost, but requests do not slow down, memory
// does not grow beyond the queue, and the process stops with only a short delay.
package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/memory-ledger/ledger/events/tracing"
)

// sendTimeout bounds one batch with all its retries.
const sendTimeout = 5 * time.Second

type Config struct {
	// Endpoint is the base URL of an OTLP/HTTP collector, to which /v1/traces
	// is added. Headers, certificates and sampling are configured by the
	// environment variables of the OpenTelemetry specification.
	Endpoint string
	Service  string // service.name
	Logger   *slog.Logger
}

// Exporter makes tracers and sends their spans.
type Exporter struct {
	provider *trace.TracerProvider
	sender   trace.SpanExporter
}

// Start returns an exporter to the configured collector. The collector need not run yet:
// the exporter connects when it has spans to send.
func Start(ctx context.Context, cfg Config) (*Exporter, error) {
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
	complaints := rate.Sometimes{First: 1, Interval: time.Minute}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		complaints.Do(func() { cfg.Logger.Warn("the trace collector does not take spans; they are dropped", "err", err) })
	}))
	limits := trace.NewSpanLimits()
	limits.AttributeValueLengthLimit, limits.LinkCountLimit = 256, tracing.MaxLinks
	provider := trace.NewTracerProvider(trace.WithResource(about), trace.WithRawSpanLimits(limits),
		trace.WithBatcher(exporter, trace.WithMaxQueueSize(4096), trace.WithMaxExportBatchSize(512),
			trace.WithBatchTimeout(time.Second), trace.WithExportTimeout(sendTimeout)))
	return &Exporter{provider: provider, sender: exporter}, nil
}

// Tracer returns the tracer of a part of the product, such as "core" or "projector". A
// nil Exporter returns nil, which means that tracing is off.
func (e *Exporter) Tracer(part string) api.Tracer {
	if e == nil {
		return nil
	}
	return e.provider.Tracer("github.com/memory-ledger/ledger/" + part)
}

// Stop sends the queued spans for two seconds, and drops the rest.
// Stopping a nil Exporter does nothing.
func (e *Exporter) Stop() {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := e.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
		// Cut off the request to a collector that does not answer.
		_ = e.sender.Shutdown(ctx)
	}
}
