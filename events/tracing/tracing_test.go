package tracing_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/memory-ledger/ledger/events/tracing"
)

// remote returns a context in a trace that another process began.
func remote(number int, flags trace.TraceFlags) context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0: 1, 15: byte(number)}, SpanID: trace.SpanID{7: 1}, TraceFlags: flags,
	}))
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
