package e2e_test

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// receiver is a collector: it accepts OTLP over HTTP and keeps everything.
type receiver struct {
	t      *testing.T
	server *httptest.Server

	mu      sync.Mutex
	spans   []*otlp.Span
	raw     bytes.Buffer
	arrived chan struct{} // closed and replaced when spans arrive
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t, arrived: make(chan struct{})}
	r.server = httptest.NewServer(r)
	t.Cleanup(r.server.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var body io.Reader = request.Body
	if request.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			r.t.Error(err)
			return
		}
		body = unzipped
	}
	raw, err := io.ReadAll(body)
	var export collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &export)
	}
	if err != nil || request.URL.Path != "/v1/traces" {
		r.t.Errorf("%s: %v", request.URL.Path, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.raw.Write(raw)
	for _, of := range export.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	close(r.arrived)
	r.arrived = make(chan struct{})
}

// await returns the first span that fits, once it has arrived.
func (r *receiver) await(what string, fits func(*otlp.Span) bool) *otlp.Span {
	r.t.Helper()
	deadline := time.After(2 * time.Minute)
	for {
		r.mu.Lock()
		for _, s := range r.spans {
			if fits(s) {
				r.mu.Unlock()
				return s
			}
		}
		arrived := r.arrived
		r.mu.Unlock()
		select {
		case <-arrived:
		case <-deadline:
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, s := range r.spans {
				r.t.Logf("%s %x %x links %d", s.Name, s.TraceId, s.ParentSpanId, len(s.Links))
			}
			r.t.Fatalf("no span of %s came", what)
		}
	}
}

// traced returns the span with a name in a trace.
func (r *receiver) traced(name string, trace []byte) *otlp.Span {
	r.t.Helper()
	return r.await(name, func(s *otlp.Span) bool { return s.Name == name && bytes.Equal(s.TraceId, trace) })
}

// linked returns the span with a name and a link to a trace.
func (r *receiver) linked(name string, trace []byte) *otlp.Span {
	r.t.Helper()
	return r.await(name+" with a link", func(s *otlp.Span) bool {
		for _, l := range s.Links {
			if s.Name == name && bytes.Equal(l.TraceId, trace) {
				return true
			}
		}
		return false
	})
}

func text(s *otlp.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// One write, from the caller's own span: one trace up to the append, and a link to it from
// the work on its event.
func TestOneTraceFromRequestToAppend(t *testing.T) {
	t.Parallel()
	spans := newReceiver(t)
	s := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) { c.TraceEndpoint = spans.server.URL }})
	core, wallet := s.Core[0], stacktest.NewWallet()
	token := core.Token(wallet)
	const (
		trace, caller = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
		content       = "an unmistakable secret"
	)
	id := must(hex.DecodeString(trace))
	written := core.Expect(http.StatusCreated, "POST", "/memories?q=queried",
		map[string]any{"content": content, "metadata": map[string]any{"marked": "metadatum"}}, stacktest.Bearer(token),
		stacktest.With("traceparent", "00-"+trace+"-"+caller+"-01"), stacktest.With("tracestate", "vendor=stateful"),
		stacktest.With("X-Request-Id", "request-77"), stacktest.With("Idempotency-Key", "idempotent-key-88"))

	request := spans.traced("POST /memories", id)
	if hex.EncodeToString(request.ParentSpanId) != caller || request.Kind != otlp.Span_SPAN_KIND_SERVER {
		t.Errorf("the request's span has parent %x, kind %v", request.ParentSpanId, request.Kind)
	}
	if text(request, "ledger.request_id") != "request-77" || text(request, "http.route") != "/memories" {
		t.Errorf("the request's span says %v", request.Attributes)
	}
	decide, appended := spans.traced("decide", id), spans.traced("append", id)
	if !bytes.Equal(decide.ParentSpanId, request.SpanId) || !bytes.Equal(appended.ParentSpanId, decide.SpanId) {
		t.Error("request, decide and append are not below each other")
	}
	spans.linked("project", id)
	// A read waits at the fence, in its own trace.
	core.Expect(200, "GET", "/memories/"+written.Text("id"), nil, stacktest.Bearer(token))
	read := spans.await("a read", func(s *otlp.Span) bool { return s.Name == "GET /memories/:id" })
	spans.traced("fence", read.TraceId)

	s.Stop()
	spans.mu.Lock()
	defer spans.mu.Unlock()
	for _, secret := range []string{
		content, "metadatum", "marked", token, wallet.PublicKey, "queried", "idempotent-key-88", "stateful", written.Text("id"),
		s.Config.MasterKey, s.Config.JWTSecret, s.Config.DatabaseURL,
	} {
		if bytes.Contains(spans.raw.Bytes(), []byte(secret)) {
			t.Errorf("a span holds %.8q…", secret)
		}
	}
	for _, s := range spans.spans {
		if strings.Contains(s.Name, "/livez") || len(s.Links) > 32 {
			t.Errorf("%s has %d links", s.Name, len(s.Links))
		}
	}
}

// A caller that does not sample is respected, and a malformed trace context is ignored.
func TestCallersThatAreNotTraced(t *testing.T) {
	t.Parallel()
	spans := newReceiver(t)
	s := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) { c.TraceEndpoint = spans.server.URL }})
	core := s.Core[0]
	core.Expect(200, "GET", "/health", nil, stacktest.With("traceparent", "00-11111111111111111111111111111111-2222222222222222-00"))
	core.Expect(200, "GET", "/livez", nil)
	core.Expect(401, "GET", "/memories", nil, stacktest.With("traceparent", "00-11111111111111111111111111111111-secret"))
	malformed := spans.await("a read", func(s *otlp.Span) bool { return s.Name == "GET /memories" })
	if len(malformed.ParentSpanId) != 0 {
		t.Errorf("malformed trace context was taken for %x", malformed.ParentSpanId)
	}
	s.Stop()
	spans.mu.Lock()
	defer spans.mu.Unlock()
	for _, s := range spans.spans {
		if s.Name == "GET /health" || s.Name == "GET /livez" {
			t.Errorf("%s is traced", s.Name)
		}
	}
	if bytes.Contains(spans.raw.Bytes(), []byte("secret")) {
		t.Error("a span holds what the caller sent")
	}
}

// A collector that takes connections and never answers does not delay writes, and
// delays the stop only for a bounded time.
func TestCollectorThatHangs(t *testing.T) {
	slow(t)
	t.Parallel()
	hung := make(chan struct{}, 1)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		select {
		case hung <- struct{}{}:
		default:
		}
		<-request.Context().Done()
	}))
	t.Cleanup(collector.Close)
	s := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) { c.TraceEndpoint = collector.URL }})
	core := s.Core[0]
	session := core.SignIn(stacktest.NewWallet())
	<-hung
	for range 20 {
		start := time.Now()
		core.Expect(201, "POST", "/memories", map[string]any{"content": "x", "metadata": map[string]any{}}, session)
		if took := time.Since(start); took > 4*time.Second { // sending spans is given up after five
			t.Errorf("a write took %v", took)
		}
	}
	start := time.Now()
	s.Stop()
	if took := time.Since(start); took > 12*time.Second { // drainGrace for the APIs' connections, then the grace for spans
		t.Errorf("stopping took %v", took)
	}
}
