// Package tracing takes W3C trace context from a request into the events that
// it decides, and from these to what is derived from them.
//
// Below a request, spans hang on the context: where that holds no span, because
// tracing is off or the request is not sampled, [Start] and [Parent] do nothing
// and allocate nothing. What happens later, in another process, to events of
// many requests at once has a trace of its own that is linked to theirs, or
// goes on with the trace that an event names: [Begin].
//
// A span says what was done, where and how long it took. It never holds
// content, metadata, a token, a key, a wallet's address or what it signed: a
// collector is no keeper of secrets.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Names of what spans hold beside the general conventions.
const (
	RequestID   = attribute.Key("ledger.request_id")
	FirstSeq    = attribute.Key("ledger.sequence.first")
	LastSeq     = attribute.Key("ledger.sequence.last")
	Messages    = attribute.Key("ledger.messages")
	Unlinked    = attribute.Key("ledger.links.dropped") // traces beyond MaxLinks
	BatchID     = attribute.Key("ledger.batch.id")
	BatchSize   = attribute.Key("ledger.batch.leaves")
	Transaction = attribute.Key("ledger.transaction") // its id on the chain, which is public
)

// MaxLinks bounds the traces that one span is linked to.
const MaxLinks = 32

// scope names who made a span.
const scope = "github.com/memory-ledger/ledger"

// header is the one of W3C trace context that is honoured. Its companion,
// tracestate, may hold anything, so it goes nowhere.
const header = "traceparent"

// none is a span that is not.
var none = trace.SpanFromContext(context.Background())

// Start begins a span below the one in ctx. Where there is none that records,
// ctx comes back as it is, with a span that does nothing.
func Start(ctx context.Context, name string) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, none
	}
	return parent.TracerProvider().Tracer(scope).Start(ctx, name)
}

// Begin begins a span that goes on with the trace of a traceparent, or is the
// first of its own where that is empty, and that is linked to others. A nil
// tracer, which means that tracing is off, gives a span that does nothing.
func Begin(ctx context.Context, tracer trace.Tracer, name, traceparent string, kind trace.SpanKind, links *Links) (context.Context, trace.Span) {
	if tracer == nil {
		return ctx, none
	}
	ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{}) // what ran before has no part in it
	if traceparent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, new(carrier(traceparent)))
	}
	ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(kind))
	if links != nil {
		links.AddTo(span)
	}
	return ctx, span
}

// End ends a span, as one that failed where err is not nil. What the error says
// is for the log: a database puts rows into its messages.
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
	var c carrier
	propagation.TraceContext{}.Inject(ctx, &c)
	return string(c)
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

// Links are the traces that a span has to do with, each once and MaxLinks of
// them at most. The zero value is empty.
type Links struct {
	links   []trace.Link
	seen    map[trace.TraceID]struct{}
	dropped int
}

// Add adds the trace of a traceparent. One that is empty, malformed or not
// sampled is none.
func (l *Links) Add(traceparent string) {
	if traceparent == "" {
		return
	}
	of := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), new(carrier(traceparent))))
	if !of.IsSampled() {
		return
	}
	if _, known := l.seen[of.TraceID()]; known {
		return
	}
	if len(l.links) == MaxLinks {
		l.dropped++ // counts a trace as often as it comes
		return
	}
	if l.seen == nil {
		l.seen = make(map[trace.TraceID]struct{})
	}
	l.seen[of.TraceID()] = struct{}{}
	l.links = append(l.links, trace.Link{SpanContext: of})
}

// AddTo links a span that has begun to the traces.
func (l *Links) AddTo(span trace.Span) {
	for _, link := range l.links {
		span.AddLink(link)
	}
	if l.dropped > 0 {
		span.SetAttributes(Unlinked.Int(l.dropped))
	}
}

// carrier is the one header that is passed on.
type carrier string

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	if key == header {
		return string(c)
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (c *carrier) Set(key, value string) {
	if key == header {
		*c = carrier(value)
	}
}

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string { return []string{header} }
