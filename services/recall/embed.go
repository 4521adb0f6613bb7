package recall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sony/gobreaker"
)

// Bounds of a call to the endpoint.
const (
	connectTimeout  = 2 * time.Second
	pingTimeout     = 5 * time.Second
	callTimeout     = 10 * time.Second
	batchTexts      = 64
	maxTextBytes    = 8000 // models take some 8,000 tokens; only the beginning of a longer text is embedded
	maxAnswerBytes  = 16 << 20
	maxDimensions   = 8192
	maxCalls        = 8 // at the same time
	failuresToBreak = 3
	breakTime       = 30 * time.Second
)

var (
	// errRefused: the endpoint refuses these texts. It may accept others.
	errRefused = errors.New("the endpoint refuses the texts")
	// errAnswer: the endpoint's answer is not the vectors of the texts.
	errAnswer = errors.New("not an answer with embeddings")
)

// EmbedderConfig is the settings of an Embedder.
type EmbedderConfig struct {
	URL, Model, Key string // Key may be empty
	Log             *slog.Logger
	Registerer      prometheus.Registerer
}

// Embedder gets the vectors of texts from an endpoint with OpenAI's request format. After
// three failures in a row it sends no requests for half a minute. It never logs texts or
// the key.
type Embedder struct {
	cfg     EmbedderConfig
	client  *http.Client
	breaker *gobreaker.CircuitBreaker
	calls   *prometheus.CounterVec
}

// NewEmbedder returns an Embedder. It does not connect.
func NewEmbedder(cfg EmbedderConfig) *Embedder {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: connectTimeout}).DialContext
	// Without pings, an HTTP/2 connection that the other end has forgotten stays in use.
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingTimeout, PingTimeout: pingTimeout}
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = maxCalls, maxCalls
	e := &Embedder{
		cfg: cfg,
		client: &http.Client{
			Transport: transport, Timeout: callTimeout,
			// Texts and the key must go to the configured endpoint only.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ledger_embedding_calls_total",
			Help: "Calls of the embeddings endpoint, by outcome. Skipped calls were not made, because the calls before had failed.",
		}, []string{"outcome"}),
	}
	e.breaker = gobreaker.NewCircuitBreaker(gobreaker.Settings{
		Timeout:     breakTime,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= failuresToBreak },
		// Not failures of the endpoint: a refusal is about the texts, and a canceled call
		// about the client that left.
		IsSuccessful: func(err error) bool {
			return err == nil || errors.Is(err, errRefused) || errors.Is(err, context.Canceled)
		},
	})
	for _, outcome := range []string{"answered", "refused", "failed", "skipped"} {
		e.calls.WithLabelValues(outcome)
	}
	cfg.Registerer.MustRegister(e.calls)
	return e
}

// embed returns a vector for each of at most batchTexts texts, all of the same
// dimensions.
func (e *Embedder) embed(ctx context.Context, texts []string) ([]vector, error) {
	called := false
	answer, err := e.breaker.Execute(func() (any, error) {
		called = true
		return e.call(ctx, texts)
	})
	switch {
	case err == nil:
		e.calls.WithLabelValues("answered").Inc()
		return answer.([]vector), nil
	case !called:
		e.calls.WithLabelValues("skipped").Inc()
	case errors.Is(err, errRefused):
		e.calls.WithLabelValues("refused").Inc()
	case !errors.Is(err, context.Canceled):
		e.calls.WithLabelValues("failed").Inc()
		e.cfg.Log.Warn("the embeddings endpoint failed; ranked search goes by words", "err", err)
	}
	return nil, err
}

// embedEach is embed for texts of which the endpoint may refuse some. It leaves the
// vectors of refused texts empty. One refused text must not keep others from being
// embedded.
func (e *Embedder) embedEach(ctx context.Context, texts []string) ([]vector, error) {
	vectors, err := e.embed(ctx, texts)
	if !errors.Is(err, errRefused) {
		return vectors, err
	}
	if len(texts) == 1 {
		return make([]vector, 1), nil
	}
	first, err := e.embedEach(ctx, texts[:len(texts)/2])
	if err != nil {
		return nil, err
	}
	second, err := e.embedEach(ctx, texts[len(texts)/2:])
	return append(first, second...), err
}

func (e *Embedder) call(ctx context.Context, texts []string) ([]vector, error) {
	body, err := json.Marshal(struct {
		Model string   `json:"model"`
		Input []string `json:"input"`
	}{e.cfg.Model, texts})
	if err != nil {
		return nil, fmt.Errorf("encode texts: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.cfg.URL, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("make the request") // the error quotes the URL
	}
	request.Header.Set("Content-Type", "application/json")
	if e.cfg.Key != "" {
		request.Header.Set("Authorization", "Bearer "+e.cfg.Key)
	}
	response, err := e.client.Do(request)
	if err != nil {
		var quoted *url.Error // the URL may hold a key
		if errors.As(err, &quoted) {
			err = quoted.Err
		}
		return nil, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return nil, errRefused
	default:
		return nil, fmt.Errorf("%w: status %d", errAnswer, response.StatusCode)
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, err
	}
	if len(answer) > maxAnswerBytes {
		return nil, fmt.Errorf("%w: longer than %d bytes", errAnswer, maxAnswerBytes)
	}
	return parseVectors(answer, len(texts))
}

// parseVectors reads an answer for a number of texts.
func parseVectors(answer []byte, texts int) ([]vector, error) {
	var parsed struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float64 `json:"embedding"`
		} `json:"data"`
	}
	if json.Unmarshal(answer, &parsed) != nil {
		return nil, fmt.Errorf("%w: it is no such JSON", errAnswer) // the error may quote a part of it
	}
	if len(parsed.Data) != texts {
		return nil, fmt.Errorf("%w: %d vectors for %d texts", errAnswer, len(parsed.Data), texts)
	}
	dimensions := len(parsed.Data[0].Embedding)
	if dimensions == 0 || dimensions > maxDimensions {
		return nil, fmt.Errorf("%w: a vector of %d dimensions", errAnswer, dimensions)
	}
	vectors := make([]vector, texts)
	for _, d := range parsed.Data {
		if d.Index < 0 || d.Index >= texts || vectors[d.Index] != nil {
			return nil, fmt.Errorf("%w: index %d of %d, or twice", errAnswer, d.Index, texts)
		}
		if len(d.Embedding) != dimensions {
			return nil, fmt.Errorf("%w: vectors of %d and %d dimensions", errAnswer, dimensions, len(d.Embedding))
		}
		vectors[d.Index] = quantize(d.Embedding)
	}
	return vectors, nil
}
