package projector

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"
	"go.opentelemetry.io/otel/trace"

	"github.com/memory-ledger/ledger/events/tracing"
)

// newRouter returns a router. Its middlewares do everything for a slice except apply it.
//
// There is no Retry middleware. Retry would call the handler again with the same message.
// But after an error another projector may hold the locks, the checkpoint may have moved,
// and the projections may remember rows that were never written. So the session ends, and
// [Runner.Run] retries with backoff: it is the only restart loop.
func (s *session) newRouter() (*message.Router, error) {
	cfg := &s.runner.cfg
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: cfg.ApplyTimeout + time.Second},
		// The router logs only routine events, and errors that Run also reports.
		watermill.NewSlogLoggerWithLevelMapping(cfg.Logger, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug, slog.LevelError: slog.LevelDebug}))
	if err != nil {
		return nil, fmt.Errorf("make router: %w", err)
	}
	router.AddMiddleware(s.endAtError)
	if cfg.Tracer != nil {
		router.AddMiddleware(s.runner.trace)
	}
	router.AddMiddleware(s.runner.metrics.measure, middleware.Recoverer, s.runner.limit)
	return router, nil
}

// sliceError says that a slice could not be applied.
type sliceError struct{ error }

func (e sliceError) Unwrap() error { return e.error }

// endAtError ends the session if a slice could not be applied.
func (s *session) endAtError(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		out, err := next(msg)
		if err != nil {
			err = sliceError{fmt.Errorf("apply sequences %s: %w", msg.UUID, err)}
			s.end(err)
		}
		return out, err
	}
}

// trace gives each slice a span. The span is the root of a separate trace, because a
// slice holds events of many requests. handle links the span to their traces.
func (r *Runner) trace(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		ctx, span := tracing.Begin(msg.Context(), r.cfg.Tracer, "project", "", trace.SpanKindConsumer)
		msg.SetContext(ctx)
		out, err := next(msg)
		tracing.End(span, err)
		return out, err
	}
}

// describe records the slice's contents in the span of ctx, if there is one.
func describe(ctx context.Context, slice Slice) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	var links tracing.Links
	for i := range slice.Records {
		links.Add(slice.Records[i].Events[0].TraceParent) // all events of a message come from one request
	}
	links.AddTo(span)
	span.SetAttributes(tracing.FirstSeq.Int64(int64(slice.First)), tracing.LastSeq.Int64(int64(slice.Last)),
		tracing.Messages.Int(len(slice.Records)))
}

// measure counts the applied slices and the time that each took.
func (m *metrics) measure(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		start := time.Now()
		out, err := next(msg)
		if err == nil {
			m.apply.Observe(time.Since(start).Seconds())
			m.slices.Inc()
		}
		return out, err
	}
}

// limit bounds the time for a slice. If the projector is stopped, the slice still gets
// the drain timeout.
func (r *Runner) limit(next message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(msg.Context()), r.cfg.ApplyTimeout)
		defer cancel()
		stop := context.AfterFunc(msg.Context(), func() { time.AfterFunc(r.cfg.DrainTimeout, cancel) })
		defer stop()
		msg.SetContext(ctx)
		return next(msg)
	}
}
