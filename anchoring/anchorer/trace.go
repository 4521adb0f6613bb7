package anchorer

import (
	"context"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/tracing"
)

// origin is where a waiting leaf comes from: the trace of the request that wrote it. A
// traced batch has a separate trace: cut, submitted and confirmed, by any anchorer. That
// trace begins with links to the origins of the batch's leaves.
//
// Origins are part of the fold, so they outlive a crash. No decision depends on them, so
// an owner keeps the first few of the waiting leaves and drops the others.
type origin struct {
	leaf        uint64
	traceparent string
}

// maxOrigins bounds the origins of an owner, and with them the row.
const maxOrigins = 16

// came records the origin of a leaf.
func (o *owner) came(leaf uint64, traceparent string) {
	if traceparent != "" && len(traceparent) <= maxTraceparent && len(o.origins) < maxOrigins {
		o.origins = append(o.origins, origin{leaf, traceparent})
	}
}

// maxTraceparent is the length of a version 00 traceparent. The log could hold a longer
// one.
const maxTraceparent = 55

// depart removes the origins of the leaves that a batch covers.
func (o *owner) depart(size uint64) {
	n := 0
	for n < len(o.origins) && o.origins[n].leaf < size {
		n++
	}
	o.origins = o.origins[n:]
}

// inherit links the next batch to a failed one, and so to the links of the failed one.
func (o *owner) inherit(failed *batch) {
	if failed.traceparent != "" {
		o.origins = append([]origin{{failed.from, failed.traceparent}}, o.origins[:min(len(o.origins), maxOrigins-1)]...)
	}
}

// links returns the traces of the leaves of a batch that covers all waiting leaves.
func (o *owner) links() *tracing.Links {
	var links tracing.Links
	for _, from := range o.origins {
		links.Add(from.traceparent)
	}
	return &links
}

// encodeOrigins returns the form of origins in the store: "leaf=traceparent …".
func encodeOrigins(origins []origin) string {
	var b strings.Builder
	for i, o := range origins {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.FormatUint(o.leaf, 10) + "=" + o.traceparent)
	}
	return b.String()
}

// decodeOrigins is the inverse of encodeOrigins. It leaves out malformed parts.
func decodeOrigins(text string) (origins []origin) {
	for part := range strings.FieldsSeq(text) {
		leaf, traceparent, found := strings.Cut(part, "=")
		if n, err := strconv.ParseUint(leaf, 10, 64); found && err == nil {
			origins = append(origins, origin{n, traceparent})
		}
	}
	return origins
}

// span begins the span of an event to append. A cut begins the batch's trace. Every later
// event of the batch continues that trace.
func (d *driver) span(ctx context.Context, r record) (context.Context, trace.Span) {
	if d.cfg.Tracer == nil {
		return tracing.Begin(ctx, nil, "", "", trace.SpanKindInternal, nil)
	}
	var links *tracing.Links
	traceparent := ""
	if _, cut := r.data.(*events.BatchCut); cut {
		links = r.owner.links()
	} else if r.owner.batch != nil {
		traceparent = r.owner.batch.traceparent
	}
	ctx, span := tracing.Begin(ctx, d.cfg.Tracer, "anchor "+string(r.data.EventType()), traceparent, trace.SpanKindInternal, links)
	switch e := r.data.(type) {
	case *events.BatchCut:
		span.SetAttributes(tracing.BatchID.String(e.BatchID), tracing.BatchSize.Int64(int64(e.Size-e.FromSize)))
	case *events.BatchSubmitted:
		span.SetAttributes(tracing.BatchID.String(e.BatchID), tracing.Transaction.String(e.Signature))
	case *events.BatchConfirmed:
		span.SetAttributes(tracing.BatchID.String(e.BatchID), tracing.Transaction.String(e.Signature))
	case *events.BatchFailed:
		span.SetAttributes(tracing.BatchID.String(e.BatchID), tracing.Transaction.String(e.Signature))
	}
	return ctx, span
}
