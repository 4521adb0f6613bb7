// Package tracing carries W3C trace context from a request into the events that the
// request decides, and from the events into the work that is derived from them.
//
// Within a request, the context holds the span. If the context holds no span, because
// tracing is off or the request is not sampled, [Start] and [Parent] do nothing and
// allocate nothing. Another process later handles events of many requests at once. That
// work gets its own trace, linked to the traces of the requests, or continues the trace
// that an event names: see [Begin].
//
// A span records what was done, where, and how long it took. It never holds content,
// metadata, a token, a key, a wallet's address, or data that the wallet signed: a
// collector is not a place for secrets.
package tracing

import (
	"context"
	"log/slog"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Names of span attributes that are not in the general conventions.
const (
	RequestID = attribute.Key("ledger.request_id")
	FirstSeq  = attribute.Key("ledger.sequence.first")
	LastSeq   = attribute.Key("ledger.sequence.last")
	Messages  = attribute.Key("ledger.messages")
)

// MaxLinks bounds the traces that one span is linked to.
const MaxLinks = 32

// scope names the program that made a span.
const scope = "github.com/memory-ledger/ledger"

// header is the only header of W3C trace context that is honored. Its companion,
// tracestate, may hold anything, so it is not passed on.
const header = "traceparent"

var none = trace.SpanFromContext(context.Background())

// Start begins a child of the span in ctx. If ctx has no span that records, Start
// returns ctx unchanged, with a span that does nothing.
func Start(ctx context.Context, name string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, none
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name)
}

// Begin begins a span that continues the trace of a traceparent. If traceparent is
// empty, the span begins a new trace. A nil tracer means that tracing is off: then Begin
// returns a span that does nothing.
func Begin(ctx context.Context, tracer trace.Tracer, name, traceparent string, kind trace.SpanKind) (context.Context, trace.Span) {
	if tracer == nil {
		return ctx, none
	}
	ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{}) // the span in ctx is not the parent
	if traceparent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{header: traceparent})
	}
	return tracer.Start(ctx, name, trace.WithSpanKind(kind))
}

// End ends a span, and marks it as failed if err is not nil. The error's text is only
// for the log, not for the span: a database puts rows into its messages.
func End(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// Parent returns the traceparent of the span in ctx, for an event or a request
// to another service: empty if nothing is recorded.
func Parent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	c := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, c)
	return c[header]
}

// TraceID returns the id of the trace in ctx for a log line, empty if nothing
// is recorded.
func TraceID(ctx context.Context) string {
	of := trace.SpanContextFromContext(ctx)
	if !of.IsSampled() {
		return ""
	}
	return of.TraceID().String()
}

// Links are the traces that a span is linked to, each once and at most MaxLinks of
// them. The zero value is empty.
type Links []trace.Link

// Add adds the trace of a traceparent. It ignores a traceparent that is empty,
// malformed, or not sampled.
func (l *Links) Add(traceparent string) {
	if traceparent == "" {
		return
	}
	of := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{header: traceparent}))
	known := slices.ContainsFunc(*l, func(link trace.Link) bool { return link.SpanContext.TraceID() == of.TraceID() })
	if known || !of.IsSampled() || len(*l) == MaxLinks {
		return
	}
	*l = append(*l, trace.Link{SpanContext: of})
}

// AddTo links a span, which has already begun, to the traces.
func (l Links) AddTo(span trace.Span) {
	for _, link := range l {
		span.AddLink(link)
	}
}

type requestKey struct{}

// WithRequest returns a context that knows the id of the request it belongs to. No logger
// is built until a line is logged: most requests log nothing.
func WithRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// Log returns a logger for lines about the request in ctx: with its requestId,
// and its traceId if it is traced.
func Log(ctx context.Context, logger *slog.Logger) *slog.Logger {
	if id, ok := ctx.Value(requestKey{}).(string); ok {
		logger = logger.With("requestId", id)
	}
	if id := TraceID(ctx); id != "" {
		logger = logger.With("traceId", id)
	}
	return logger
}
