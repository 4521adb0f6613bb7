package projector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
)

// spans records the ended spans as text, oldest first.
type spans struct {
	noop.Tracer
	mu    sync.Mutex
	ended []string
}

func (s *spans) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	cfg := trace.NewSpanStartConfig(options...)
	about := []string{name, cfg.SpanKind().String()}
	if of := trace.SpanContextFromContext(ctx); of.IsValid() {
		about = append(about, "below "+of.TraceID().String())
	}
	started := &span{of: s, about: about}
	return trace.ContextWithSpan(ctx, started), started
}

type span struct {
	noop.Span
	of    *spans
	about []string
}

func (*span) IsRecording() bool { return true }

func (s *span) AddLink(link trace.Link) {
	s.about = append(s.about, "link "+link.SpanContext.TraceID().String())
}

func (s *span) SetAttributes(attributes ...attribute.KeyValue) {
	for _, a := range attributes {
		s.about = append(s.about, fmt.Sprintf("%s=%s", a.Key, a.Value.String()))
	}
}

func (s *span) SetStatus(code codes.Code, _ string) { s.about = append(s.about, code.String()) }

func (s *span) End(...trace.SpanEndOption) {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	s.of.ended = append(s.of.ended, strings.Join(s.about, ", "))
}

// TestASliceIsTraced: a slice's span links to the requests of its messages, but is not
// part of their traces. It names the messages and whether they were applied, and is the
// parent of the database's spans.
func TestASliceIsTraced(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	a := fixture.NewActor()
	messages := []fixture.Message{a.Write(`{}`), a.Write(`{}`), a.Write(`{}`)}
	messages[0].Events[0].TraceParent = "00-000000000000000000000000000000aa-00000000000000a1-01"
	messages[2].Events[0].TraceParent = "00-000000000000000000000000000000bb-00000000000000b1-01"
	log.Publish(t, messages...)
	// The messages arrive as one slice, however the log delivers them.
	whole := follows{log, func(ctx context.Context, cfg eventlog.FollowConfig, yield func(eventlog.Slice) error) error {
		var all []eventlog.Record
		return log.Follow(ctx, cfg, func(s eventlog.Slice) error {
			if all = append(all, s.Records...); s.Last < 3 {
				return nil
			}
			return yield(eventlog.Slice{First: 1, Last: 3, Records: all})
		})
	}}
	var traced spans
	within := make(chan bool, 10)
	failing := true
	_, stop := project(t, pool, whole, with(troubled{func(ctx context.Context, _ *projector.Writer, s projector.Slice) error {
		_, is := trace.SpanFromContext(ctx).(*span)
		within <- is
		if failing {
			failing = false
			return errors.New("a bad day")
		}
		return nil
	}}), func(c *projector.Config) { c.Tracer = &traced })
	caughtUp(t, pool, log)
	if err := stop(); err != nil {
		t.Error(err)
	}
	const slice = "project, consumer, link 000000000000000000000000000000aa, link 000000000000000000000000000000bb, " +
		"ledger.sequence.first=1, ledger.sequence.last=3, ledger.messages=3"
	if want := []string{slice + ", Error", slice}; !slices.Equal(traced.ended, want) {
		t.Errorf("traced: %q, want %q", traced.ended, want)
	}
	for range len(within) {
		if !<-within {
			t.Error("a slice is applied outside of its span")
		}
	}
}
