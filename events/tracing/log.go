package tracing

import (
	"context"
	"log/slog"
)

// request is a context that knows the id of the request it belongs to. No logger
// is built until a line is logged: most requests log nothing.
type request struct {
	context.Context
	id string
}

type requestKey struct{}

// WithRequest returns a context that knows the id of its request.
func WithRequest(ctx context.Context, id string) context.Context { return &request{ctx, id} }

// Value implements context.Context.
func (r *request) Value(key any) any {
	if _, ok := key.(requestKey); ok {
		return r.id
	}
	return r.Context.Value(key)
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
