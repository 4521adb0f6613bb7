package httpapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/memory-ledger/ledger/events/tracing"
)

// span begins the request's span. If the caller names a trace, the span continues it.
// Requests of operators and their probes are not traced.
func (a *App) span(ctx context.Context, c *fiber.Ctx) (context.Context, trace.Span) {
	tracer := a.cfg.Tracer
	if path := c.Path(); path == "/livez" || path == "/readyz" || path == "/metrics" {
		tracer = nil
	}
	if tracer == nil {
		return tracing.Begin(ctx, nil, "", "", trace.SpanKindServer)
	}
	// The name is only the method until the route is known. No span holds the path: it
	// may hold a token.
	return tracing.Begin(ctx, tracer, utils.CopyString(c.Method()), utils.CopyString(c.Get("traceparent")), trace.SpanKindServer)
}

// describe names a request's span and sets its attributes.
func describe(span trace.Span, method, route string, status int, requestID string) {
	if !span.IsRecording() {
		return
	}
	span.SetName(method + " " + route)
	span.SetAttributes(attribute.String("http.request.method", method), attribute.String("http.route", route),
		attribute.Int("http.response.status_code", status), tracing.RequestID.String(requestID))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
}

// log is the logger for lines about a request.
func (a *App) log(c *fiber.Ctx) *slog.Logger { return tracing.Log(Context(c), a.cfg.Log) }
