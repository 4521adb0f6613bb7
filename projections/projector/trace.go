package projector

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/memory-ledger/ledger/events/tracing"
)

// trace begins the span of a slice: a trace of its own, for a slice holds
// events of many requests, linked to theirs.
func (r *Runner) trace(ctx context.Context, slice Slice) (context.Context, trace.Span) {
	if r.cfg.Tracer == nil {
		return tracing.Begin(ctx, nil, "", "", trace.SpanKindConsumer, nil)
	}
	var links tracing.Links
	for i := range slice.Records {
		links.Add(slice.Records[i].Events[0].TraceParent) // of one command, and so of one request
	}
	ctx, span := tracing.Begin(ctx, r.cfg.Tracer, "project", "", trace.SpanKindConsumer, &links)
	span.SetAttributes(tracing.FirstSeq.Int64(int64(slice.First)), tracing.LastSeq.Int64(int64(slice.Last)),
		tracing.Messages.Int(len(slice.Records)))
	return ctx, span
}
