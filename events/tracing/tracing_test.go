package tracing_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/tracing"
)

const sampled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func requestContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// offPath does everything that tracing does for a request, an append, a wait at the
// fence, and a slice.
func offPath(ctx context.Context) {
	ctx, request := tracing.Begin(ctx, nil, "POST", sampled, trace.SpanKindServer, nil)
	decide, span := tracing.Start(ctx, "decide")
	if tracing.Parent(decide) != "" || tracing.TraceID(decide) != "" {
		panic("a trace without a tracer")
	}
	tracing.End(span, errRefused)
	span.End()
	request.End()
	var links tracing.Links
	links.Add("")
}

var errRefused = errors.New("refused")

// Tracing that is off allocates nothing.
func TestOffAllocatesNothing(t *testing.T) {
	ctx := requestContext(t)
	if n := testing.AllocsPerRun(1000, func() { offPath(ctx) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOff(b *testing.B) {
	ctx := requestContext(b)
	b.ReportAllocs()
	for b.Loop() {
		offPath(ctx)
	}
}

// remote returns a context in a trace that another process began.
func remote(number int, flags trace.TraceFlags) context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0: 1, 15: byte(number)}, SpanID: trace.SpanID{7: 1}, TraceFlags: flags,
	}))
}

func TestParentIsWhatAnEventTakes(t *testing.T) {
	t.Parallel()
	ctx := remote(7, trace.FlagsSampled)
	const want = "00-01000000000000000000000000000007-0000000000000001-01"
	if got := tracing.Parent(ctx); got != want {
		t.Errorf("got %s", got)
	}
	if got := tracing.TraceID(ctx); got != want[3:35] {
		t.Errorf("got %s", got)
	}
	if got := tracing.Parent(remote(7, 0)); got != "" {
		t.Errorf("what is not sampled is passed on: %s", got)
	}
	// Both decoders return the traceparent that was encoded.
	e := events.Event{
		ID: "e", Source: "/core", Owner: "4Nd1mYvYzk6jNsMbXzN7XUxuJdDmHMczYbsYnyDyB1vM", OwnerVersion: 1, CommandID: "c",
		Time: events.At(time.Unix(1, 0)), TraceParent: want, Data: &events.ApiKeyRevoked{KeyID: "k"},
	}
	for _, batch := range [][]events.Event{{e}, {e, e}} {
		payload, err := events.EncodeBatch(batch)
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := events.DecodeBatch(payload)
		if err != nil || decoded[0].TraceParent != want {
			t.Errorf("%s: %v", payload, err)
		}
	}
}

func TestLinesNameTheRequest(t *testing.T) {
	t.Parallel()
	var lines strings.Builder
	logger := slog.New(slog.NewTextHandler(&lines, nil))
	traced, cancel := context.WithTimeout(tracing.WithRequest(remote(7, trace.FlagsSampled), "r-1"), time.Minute)
	defer cancel()
	tracing.Log(traced, logger).Info("x")
	tracing.Log(tracing.WithRequest(context.Background(), "r-2"), logger).Info("x")
	tracing.Log(context.Background(), logger).Info("x")
	for i, want := range []string{"msg=x requestId=r-1 traceId=01000000000000000000000000000007", "msg=x requestId=r-2", "msg=x"} {
		if line := strings.Split(lines.String(), "\n")[i]; !strings.HasSuffix(line, want) {
			t.Errorf("%s", line)
		}
	}
}

// recorder is both a tracer and the span that it makes. It keeps the parent and the links.
type recorder struct {
	trace.Tracer
	noop.Span
	parent trace.SpanContext
	links  []trace.Link
}

func (r *recorder) Start(ctx context.Context, _ string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	r.parent = trace.SpanContextFromContext(ctx)
	return ctx, r
}

func (r *recorder) AddLink(link trace.Link) { r.links = append(r.links, link) }

func TestLinksAreBoundedAndEachOnce(t *testing.T) {
	t.Parallel()
	var links tracing.Links
	for _, none := range []string{"", "rubbish", sampled[:54] + "0", "00-" + "00000000000000000000000000000000" + sampled[35:], sampled + "-more"} {
		links.Add(none)
	}
	for range 2 {
		for n := range 2 * tracing.MaxLinks {
			links.Add(tracing.Parent(remote(n, trace.FlagsSampled)))
		}
	}
	var r recorder
	tracing.Begin(remote(200, trace.FlagsSampled), &r, "project", "", trace.SpanKindConsumer, &links)
	if r.parent.IsValid() {
		t.Errorf("a span of its own trace has the parent %v", r.parent)
	}
	seen := map[trace.TraceID]bool{}
	for _, l := range r.links {
		seen[l.SpanContext.TraceID()] = true
	}
	if len(r.links) != tracing.MaxLinks || len(seen) != tracing.MaxLinks {
		t.Errorf("%d links to %d traces", len(r.links), len(seen))
	}
	tracing.Begin(remote(200, trace.FlagsSampled), &r, "goes on", sampled, trace.SpanKindServer, nil)
	if got := fmt.Sprint(r.parent.TraceID()); got != sampled[3:35] || !r.parent.IsRemote() || !r.parent.IsSampled() {
		t.Errorf("goes on with %s", got)
	}
}
