package tracing_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/tracing"
)

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
