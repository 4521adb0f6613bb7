package memoryledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxMessage bounds how much of an error's body is read.
const maxMessage = 64 << 10

// request is a request that may be sent several times.
type request struct {
	method, url    string
	credential     string
	body           any       // JSON
	lines          io.Reader // a body of lines, of any length, in place of body
	idempotencyKey string
	header         http.Header
	// once: repeating the request could do something twice. Then only a 429 is repeated.
	once bool
	// signed: the body has what a wallet signed, which counts once.
	signed bool
	// idle makes the answer a stream: the timeout applies to each read of it, not to all
	// of it.
	idle time.Duration
}

// secret finds grant tokens in paths.
var secret = regexp.MustCompile(`svc_\w+_[\w-]+`)

func (r *request) name() string {
	path := ""
	if u, err := url.Parse(r.url); err == nil {
		path = secret.ReplaceAllString(u.Path, "…")
	}
	return r.method + " " + path
}

// call sends a request and decodes the answer. If into is nil, the answer must say that it is
// done.
func (c *Client) call(ctx context.Context, r request, into any) (header http.Header, err error) {
	err = c.repeat(ctx, &r, func() error {
		response, err := c.attempt(ctx, &r)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		header = response.Header
		text, err := io.ReadAll(response.Body)
		if err != nil {
			return err
		}
		return decode(r.name(), text, into)
	})
	return header, err
}

// decode reads an answer. A proxy may cut an answer short without an error, so broken
// JSON counts as a failed connection. Members that the client does not know are ignored.
func decode(name string, text []byte, into any) error {
	if into == nil {
		var done struct {
			OK bool `json:"ok"`
		}
		if err := decode(name, text, &done); err != nil || done.OK {
			return err
		}
		return serviceLies(ErrMalformed, "ok", "%s answers that it is not done", name)
	}
	if plain, isText := into.(*string); isText {
		*plain = string(text)
		return nil
	}
	var syntax *jsontext.SyntacticError
	err := json.Unmarshal(text, into)
	if errors.As(err, &syntax) {
		return fmt.Errorf("%w: %s: the answer is not JSON", ErrConnection, name)
	}
	if err != nil {
		return serviceLies(ErrMalformed, name, "%v", err)
	}
	if member := missing(text, into); member != "" {
		return serviceLies(ErrMalformed, member, "%s answers without it", name)
	}
	return nil
}

// missing names the first member of a struct that must be in its JSON and is not. It would
// be zero, as if the service had said so: a write without a leaf, a link without a URL.
func missing(text []byte, into any) string {
	kind := reflect.TypeOf(into).Elem()
	if kind.Kind() != reflect.Struct {
		return ""
	}
	var members map[string]jsontext.Value
	_ = json.Unmarshal(text, &members) // was decoded before: it is an object, or null
	for field := range kind.Fields() {
		name, _, optional := strings.Cut(field.Tag.Get("json"), ",")
		nullable := slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Map, reflect.Slice}, field.Type.Kind())
		if value := members[name]; name != "" && !optional && !nullable && (value == nil || value.Kind() == 'n') {
			return name
		}
	}
	return ""
}

// open sends a request and returns the answer, which the caller closes.
func (c *Client) open(ctx context.Context, r request) (response *http.Response, err error) {
	err = c.repeat(ctx, &r, func() error {
		response, err = c.attempt(ctx, &r)
		return err
	})
	return response, err
}

// longestWait bounds the wait that a Retry-After header asks for.
const longestWait = time.Minute

// repeat retries until an attempt succeeds, or until another one can't help or could do
// harm.
func (c *Client) repeat(ctx context.Context, r *request, try func() error) error {
	var lost error // of an attempt that may have succeeded
	for n := 0; ; n++ {
		err := try()
		if r.signed && lost != nil && errors.Is(err, ErrUnauthorized) {
			return lost // for which reason the signature may count no more
		}
		if err == nil || n == c.retries || !r.mayRepeat(err) {
			return err
		}
		if !errors.Is(err, ErrRateLimited) {
			lost = err
		}
		wait := time.Duration(float64(c.backoff<<n) * (0.5 + rand.Float64()/2))
		var refused *Error
		if errors.As(err, &refused) && refused.retryAfter > 0 {
			if wait = refused.retryAfter; wait > longestWait {
				return err // a quota of the day, perhaps: the caller decides
			}
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func (r *request) mayRepeat(err error) bool {
	if errors.Is(err, ErrRateLimited) {
		return true
	}
	return !r.once && (errors.Is(err, ErrUnavailable) || errors.Is(err, ErrConnection) || errors.Is(err, ErrTimeout))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// attempt sends a request once. The error is an *Error, ErrConnection, ErrTimeout or the
// context's.
func (c *Client) attempt(ctx context.Context, r *request) (*http.Response, error) {
	body, err := r.encode()
	if err != nil {
		return nil, err
	}
	b := &answerBody{parent: ctx, name: r.name(), idle: r.idle}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	b.timer = time.AfterFunc(c.timeout, func() { b.cancel(ErrTimeout) })
	if r.lines != nil {
		b.timer.Stop()
	}
	request, err := http.NewRequestWithContext(b.ctx, r.method, r.url, body)
	if err != nil {
		b.stop()
		return nil, err
	}
	r.setHeader(request)
	response, err := c.http.Do(request)
	if err != nil {
		err = b.lost(err) // before stop, which also sets a cause
		b.stop()
		return nil, err
	}
	b.inner, response.Body = response.Body, b
	if b.idle > 0 {
		b.timer.Stop() // each read restarts it
	}
	if response.StatusCode < 300 {
		return response, nil
	}
	defer response.Body.Close()
	return nil, refusal(response)
}

func (r *request) encode() (io.Reader, error) {
	if r.lines != nil {
		return io.NopCloser(r.lines), nil // the caller's to close
	}
	if r.body == nil && r.once {
		// When a used connection breaks, net/http itself sends a GET again, unless it has a
		// body that can't be read twice. No body is sent for an empty one.
		return io.MultiReader(), nil
	}
	if r.body == nil {
		return nil, nil
	}
	text, err := json.Marshal(r.body)
	return bytes.NewReader(text), err
}

func (r *request) setHeader(request *http.Request) {
	for name, values := range r.header {
		request.Header[name] = values
	}
	if r.credential != "" {
		request.Header.Set("Authorization", "Bearer "+r.credential)
	}
	if r.idempotencyKey != "" {
		request.Header.Set("Idempotency-Key", r.idempotencyKey)
	}
	if r.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if r.lines != nil {
		request.Header.Set("Content-Type", "application/x-ndjson")
	}
}

// refusal reads an answer other than success. A body without the service's form comes
// from a gateway.
func refusal(response *http.Response) error {
	e := &Error{
		Status: response.StatusCode, Message: response.Status, RequestID: response.Header.Get("X-Request-Id"),
		retryAfter: retryAfter(response.Header.Get("Retry-After"), time.Now()),
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxMessage))
	if err != nil {
		return e
	}
	var body struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(text, &body) == nil && body.Error != "" {
		e.Message = body.Error
	}
	return e
}

// retryAfter reads a Retry-After header: seconds or a date.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return at.Sub(now)
	}
	return 0
}

// answerBody is the body of an answer. Its errors say what failed. Reading ends at the
// timeout.
type answerBody struct {
	inner  io.ReadCloser
	parent context.Context // the caller's
	ctx    context.Context // the attempt's
	cancel context.CancelCauseFunc
	timer  *time.Timer
	idle   time.Duration
	name   string
}

// Read implements io.Reader. In a stream, the caller's time between two reads does not
// count.
func (b *answerBody) Read(p []byte) (int, error) {
	if b.idle > 0 {
		b.timer.Reset(b.idle)
		defer b.timer.Stop()
	}
	n, err := b.inner.Read(p)
	if err != nil && err != io.EOF { // io.ErrUnexpectedEOF is a failed connection
		err = b.lost(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *answerBody) Close() error {
	b.stop()
	return b.inner.Close()
}

func (b *answerBody) stop() {
	b.timer.Stop()
	b.cancel(nil)
}

// lost says why no answer arrived. The URL may hold a token, so the error omits it.
func (b *answerBody) lost(err error) error {
	if b.parent.Err() != nil {
		return fmt.Errorf("memoryledger: %s: %w", b.name, b.parent.Err())
	}
	if errors.Is(context.Cause(b.ctx), ErrTimeout) {
		return fmt.Errorf("%w: %s", ErrTimeout, b.name)
	}
	var quoted *url.Error
	if errors.As(err, &quoted) {
		err = quoted.Err
	}
	return fmt.Errorf("%w: %s: %w", ErrConnection, b.name, err)
}
