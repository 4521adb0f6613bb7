package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/utils"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/memory-ledger/ledger/events/tracing"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/quota"
)

const (
	// requestTimeout bounds the work on one request, except for streaming.
	requestTimeout = 10 * time.Second
	// readTimeout is how long a request, or a part of a body that is read as it arrives, may
	// take to arrive.
	readTimeout = 30 * time.Second
	// answerBytes holds a page of a list, so that the page is sent in one system call.
	// Each call wakes the client, and on a busy machine the sender then waits for a
	// processor.
	answerBytes = 16 << 10
)

// Probe is a dependency that the readiness route checks.
type Probe struct {
	Name  string
	Check func(ctx context.Context) error
	// Advisory: a failure is shown, but the service stays ready for requests.
	Advisory bool
}

type Config struct {
	Service    string // "core" or "extension"
	Log        *slog.Logger
	Registry   *prometheus.Registry
	OpenAPI    []byte // the document served at /openapi.json
	Probes     []Probe
	ShowCauses bool // add requestId and the underlying message to errors
	HideCauses bool // with ShowCauses: production, requestId only
	NewID      func() string
	Tracer     trace.Tracer // nil: tracing is off
	// MaxConnections bounds the open connections; 0 means DefaultConnections.
	MaxConnections int
}

// DefaultConnections bounds the open connections of an API: each holds about 50 kB.
const DefaultConnections = 2048

type App struct {
	*fiber.App
	// Early, if set, adds headers to answers that are sent before any middleware runs, to
	// requests that are too large or malformed.
	Early func(c *fiber.Ctx)
	// Page, if set, may answer a refusal with a page for people in place of JSON. It
	// returns true if it answered. The status is already set.
	Page func(c *fiber.Ctx, status int) (answered bool)

	cfg      Config
	route    fasthttp.RequestHandler // the framework's
	requests *prometheus.HistogramVec
	inFlight prometheus.Gauge
	outages  sync.Map // *rate.Sometimes by the error of the table's row; nil for a database that is down
	bodies   bodies
	// compressing holds an entry for each stream that is being compressed.
	compressing chan struct{}
	stopping    context.Context // done once the service has begun to stop
	stop        context.CancelFunc
}

// keyedRoutes are the routes whose writes take an Idempotency-Key. On other routes, the
// advice to repeat a write would be wrong: a repeat could use up another write of a drop.
var keyedRoutes = []string{"/memories", "/memories/batch"}

const (
	headerOpenerPolicy   = "Cross-Origin-Opener-Policy"
	headerResourcePolicy = "Cross-Origin-Resource-Policy"
)

const (
	localRequestID = "requestId"
	localContext   = "context"
	localBody      = "body"
)

// New returns an App with the operational routes. The API adds its own routes.
func New(cfg Config) *App {
	// This bounds the streams that are compressed at once. Each holds about 1 MB until its
	// client has read it. Further streams are sent uncompressed.
	a := &App{cfg: cfg, bodies: newBodies(), compressing: make(chan struct{}, 32)}
	a.stopping, a.stop = context.WithCancel(context.Background())
	a.App = fiber.New(fiber.Config{
		AppName: "memory-ledger " + cfg.Service, DisableStartupMessage: true,
		BodyLimit: MaxBody, StreamRequestBody: true, ReadBufferSize: 16 << 10, WriteBufferSize: answerBytes,
		// WriteTimeout is long enough for a list of everything, to a slow client.
		ReadTimeout: readTimeout, WriteTimeout: 5 * time.Minute, IdleTimeout: 2 * time.Minute,
		// A form is a body like any other: the route decides about it. The framework
		// would parse it first, and answer a malformed form with 400 on every route.
		DisablePreParseMultipartForm: true,
		// Paths are matched as they were sent: unescaping %2F would make a route that a
		// gateway's rules did not see. See Param.
		StrictRouting: true, CaseSensitive: true, UnescapePath: false,
		JSONEncoder:  func(v any) ([]byte, error) { return json.Marshal(v, json.Deterministic(true)) },
		ErrorHandler: a.fail,
	})
	a.Server().ConnState = follow
	a.route, a.Server().Handler = a.Server().Handler, a.handle
	a.requests = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "ledger", Subsystem: "http", Name: "request_seconds",
		Help:        "Time from the request's arrival to its answer, by route and status.",
		ConstLabels: prometheus.Labels{"service": cfg.Service},
		Buckets:     []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"method", "route", "status"})
	a.inFlight = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: "ledger", Subsystem: "http", Name: "in_flight",
		Help:        "Requests being worked on.",
		ConstLabels: prometheus.Labels{"service": cfg.Service},
	})
	cfg.Registry.MustRegister(a.requests, a.inFlight)
	a.Use(a.observe)
	a.operations()
	return a
}

// Context returns the request's context, which ends at its deadline.
func Context(c *fiber.Ctx) context.Context {
	if ctx, ok := c.Locals(localContext).(context.Context); ok {
		return ctx
	}
	return context.Background()
}

// RequestID returns the request's id: the caller's X-Request-Id if it is harmless,
// otherwise a new one.
func RequestID(c *fiber.Ctx) string {
	id, _ := c.Locals(localRequestID).(string)
	return id
}

// knownMethod replaces a method that the framework does not know with TRACE, which it knows
// and which no route has. The answer is then 404, or 405 with the allowed methods.
// Otherwise the framework would refuse in its own words.
func knownMethod(ctx *fasthttp.RequestCtx) {
	if !slices.Contains(fiber.DefaultMethods, string(ctx.Method())) {
		ctx.Request.Header.SetMethod(fiber.MethodTrace)
	}
}

// observe gives the request an id and a deadline, and counts and traces it.
func (a *App) observe(c *fiber.Ctx) error {
	start := time.Now()
	id := a.identify(c)
	ctx, cancel := context.WithTimeout(Context(c), requestTimeout)
	defer cancel()
	ctx, span := a.span(ctx, c)
	defer span.End()
	c.Locals(localContext, ctx)
	a.inFlight.Inc()
	defer a.inFlight.Dec()
	err := a.next(ctx, c)
	if err != nil {
		// Run the error handler here, so that its status is counted.
		if err := a.fail(c, err); err != nil {
			return err
		}
	}
	status := c.Response().StatusCode()
	route := c.Route().Path
	if status == http.StatusNotFound && c.Route().Path == "/" {
		route = "unknown"
	}
	elapsed := time.Since(start)
	method := utils.CopyString(c.Method())
	a.requests.WithLabelValues(method, route, strconv.Itoa(status)).Observe(elapsed.Seconds())
	describe(span, method, route, status, id)
	if a.cfg.Log.Enabled(ctx, slog.LevelDebug) {
		a.log(c).Debug("request", "method", method, "route", route, "status", status, "duration", elapsed)
	}
	return nil
}

// next runs the route. A panic in one request must not end the other requests.
func (a *App) next(ctx context.Context, c *fiber.Ctx) (err error) {
	defer a.survive(ctx, &err)
	return c.Next()
}

// survive is deferred. It turns a panic into a 500 and logs the stack.
func (a *App) survive(ctx context.Context, err *error) {
	if cause := recover(); cause != nil {
		tracing.Log(ctx, a.cfg.Log).Error("panic", "cause", cause, "stack", string(debug.Stack()))
		*err = errPanic
	}
}

// errPanic matches no row of the table and so becomes a 500.
var errPanic = errors.New("a handler panicked")

// identify gives the request an id, and its answer the headers that every answer has. It
// drops headers that are too long: such a client gets the first type of each answer, plain.
func (a *App) identify(c *fiber.Ctx) (id string) {
	// This bounds the headers whose types the framework sorts in quadratic time.
	for _, name := range []string{fiber.HeaderAccept, fiber.HeaderAcceptEncoding} {
		if len(c.Get(name)) > 1<<10 {
			c.Request().Header.Del(name)
		}
	}
	id = utils.CopyString(c.Get(fiber.HeaderXRequestID))
	if !isHarmlessID(id) {
		id = a.cfg.NewID()
	}
	c.Locals(localRequestID, id)
	c.Locals(localContext, tracing.WithRequest(context.Background(), id))
	c.Set(fiber.HeaderXRequestID, id)
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	// Pages of other sites get neither a window of ours nor an answer as a script or picture.
	// Wallets open windows of their own, which still work.
	c.Set(headerOpenerPolicy, "same-origin-allow-popups")
	c.Set(headerResourcePolicy, "same-origin")
	c.Set(fiber.HeaderCacheControl, "no-store")
	return id
}

// Health serves /health, which says nothing but that the service answers. Any page may
// load it: so a client in a page that may not call the service can tell that from a lost
// connection.
func (a *App) Health(service string) {
	a.Get("/health", func(c *fiber.Ctx) error {
		c.Set(headerResourcePolicy, "cross-origin")
		return c.JSON(fiber.Map{"ok": true, "service": service})
	})
}

func isHarmlessID(id string) bool {
	if id == "" || len(id) > 128 {
		return false
	}
	return strings.IndexFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_' && r != '.'
	}) < 0
}

type errorBody struct {
	Error string `json:"error"`
	// Description is the text on the routes of apps, where Error is a code (RFC 6749).
	Description string `json:"error_description,omitzero"`
	RequestID   string `json:"requestId,omitempty"`
	Cause       string `json:"cause,omitempty"`
}

func (a *App) fail(c *fiber.Ctx, err error) error {
	if RequestID(c) == "" { // the server refused the request before the first middleware
		a.identify(c)
		if a.Early != nil {
			a.Early(c)
		}
	}
	switch {
	case errors.Is(err, command.ErrCredentialDead):
		err = access.ErrUnauthenticated // every invalid credential gets the same cause
	case errors.Is(err, fiber.ErrRequestTimeout) && a.isStopping():
		err = errStopping // the stop is why the rest of the request was not read
	}
	status, message := Answer(err)
	if message == messageUncertain && slices.Contains(keyedRoutes, c.Route().Path) {
		message = messageRepeat
	}
	if status >= http.StatusInternalServerError && !isRefusal(err) {
		a.tell(c, status, err)
	}
	body := errorBody{Error: message}
	if strings.HasPrefix(c.Path(), "/oauth/") {
		body = errorBody{Error: oauthCode(err, status), Description: message}
	}
	// An invalid grant token gets the same bytes, whatever makes it invalid.
	if a.cfg.ShowCauses && !errors.Is(err, grant.ErrDead) {
		body.RequestID = RequestID(c)
		if !a.cfg.HideCauses {
			body.Cause = cause(err, status)
		}
	}
	switch status {
	case http.StatusUnauthorized:
		if len(c.Response().Header.Peek(fiber.HeaderWWWAuthenticate)) == 0 { // a route may have set more
			c.Set(fiber.HeaderWWWAuthenticate, "Bearer")
		}
	case http.StatusServiceUnavailable:
		c.Set(fiber.HeaderRetryAfter, "1")
	case http.StatusTooManyRequests:
		RetryAfter(c, err)
	}
	c.Status(status)
	if a.Page != nil && a.Page(c, status) {
		return nil
	}
	return c.JSON(body)
}

// RetryAfter sets the header of that name if a quota was exceeded.
func RetryAfter(c *fiber.Ctx, err error) {
	if exceeded, ok := errors.AsType[*quota.ExceededError](err); ok {
		c.Set(fiber.HeaderRetryAfter, strconv.Itoa(exceeded.Seconds()))
	}
}

// tell logs a failed request. One cause makes thousands of 503s, so it gets a line a second.
func (a *App) tell(c *fiber.Ctx, status int, err error) {
	log := a.log(c).With("method", c.Method(), "route", c.Route().Path, "status", status, "err", err)
	if status != http.StatusServiceUnavailable {
		log.Error("request failed")
		return
	}
	row, _ := rowOf(err)
	cause, _ := a.outages.LoadOrStore(row.err, &rate.Sometimes{Interval: time.Second})
	cause.(*rate.Sometimes).Do(func() {
		switch {
		case errors.Is(err, command.ErrOverloaded), errors.Is(err, errBodies), errors.Is(err, memory.ErrBusy): // under load
			log.Warn("request refused")
		default:
			log.Error("request failed")
		}
	})
}

// isRefusal distinguishes an answer that a route decided to give, such as that staking is
// not live, from a failure.
func isRefusal(err error) bool {
	var refusal *Refusal
	return errors.As(err, &refusal)
}

// cause returns the underlying message. For an unknown route it returns the status text:
// the framework's message repeats the path, which may hold a token.
func cause(err error, status int) string {
	var framework *fiber.Error
	if status == http.StatusNotFound && errors.As(err, &framework) {
		return http.StatusText(status)
	}
	return err.Error()
}

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
