package stacktest

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mr-tron/base58"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/test/contracttest"
)

// Client talks to one replica of one API.
type Client struct {
	URL  string
	HTTP *http.Client
	t    testing.TB
}

const requestTimeout = 2 * time.Minute

// NewClient returns a client of the replica at a URL. It checks every answer against the
// API's OpenAPI document.
func NewClient(t testing.TB, api contracttest.API, url string) *Client {
	t.Helper()
	// The APIs answer 408 on a connection whose first request has not arrived after 30 s. A
	// transport opens connections ahead, and could use one just then.
	transport := &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: 10 * time.Second}
	t.Cleanup(transport.CloseIdleConnections)
	checked := contracttest.Transport(t, api, transport)
	return &Client{URL: url, HTTP: &http.Client{Transport: checked, Timeout: requestTimeout}, t: t}
}

// TB returns the client's test.
func (c *Client) TB() testing.TB { return c.t }

// Answer is a complete response.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Field returns a member of an object in the body, nil if there is none.
func (a Answer) Field(name string) any {
	var members map[string]any
	if json.Unmarshal(a.Body, &members) != nil {
		return nil
	}
	return members[name]
}

// Text is Field for strings.
func (a Answer) Text(name string) string {
	text, _ := a.Field(name).(string)
	return text
}

// Number is Field for numbers.
func (a Answer) Number(name string) int {
	n, _ := a.Field(name).(float64)
	return int(n)
}

// Header sets a header of a request.
type Header func(http.Header)

// Bearer sends a credential.
func Bearer(token string) Header {
	return func(h http.Header) { h.Set("Authorization", "Bearer "+token) }
}

// With sets any header.
func With(name, value string) Header { return func(h http.Header) { h.Set(name, value) } }

// Try sends a request with a JSON body (nil: none; a string or []byte is sent
// as it is) and returns the answer or the transport's error.
func (c *Client) Try(method, path string, body any, headers ...Header) (Answer, error) {
	reader, isJSON := bodyOf(body)
	request, err := http.NewRequestWithContext(context.Background(), method, c.URL+path, reader)
	if err != nil {
		return Answer{}, err
	}
	if isJSON {
		request.Header.Set("Content-Type", "application/json")
	}
	for _, set := range headers {
		set(request.Header)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return Answer{Status: response.StatusCode, Header: response.Header, Body: content}, err
}

func bodyOf(body any) (io.Reader, bool) {
	switch b := body.(type) {
	case nil:
		return nil, false
	case string:
		return strings.NewReader(b), true
	case []byte:
		return bytes.NewReader(b), true
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	return bytes.NewReader(encoded), true
}

// Do is Try for requests that must get an answer.
func (c *Client) Do(method, path string, body any, headers ...Header) Answer {
	c.t.Helper()
	a, err := c.Try(method, path, body, headers...)
	if err != nil {
		c.t.Errorf("%s %s: %v", method, path, err)
	}
	return a
}

// Persist is Do for requests that a client may send again after a 503, and does, for a minute:
// on a machine that stalls for seconds, some requests are refused.
func (c *Client) Persist(method, path string, body any, headers ...Header) Answer {
	c.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		a := c.Do(method, path, body, headers...)
		if a.Status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			return a
		}
	}
}

// Expect is Do for requests whose status is known.
func (c *Client) Expect(status int, method, path string, body any, headers ...Header) Answer {
	c.t.Helper()
	a := c.Do(method, path, body, headers...)
	if a.Status != status {
		c.t.Errorf("%s %s: status %d, want %d: %.300s", method, path, a.Status, status, a.Body)
	}
	return a
}

// ReadFirst reads a request's body before a proxy gets it. Otherwise the proxy's server may
// close the body before its transport has read the end, which cuts a long answer off.
func ReadFirst(proxy http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client is gone
		}
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		r.Body, _ = r.GetBody()
		proxy.ServeHTTP(w, r)
	})
}

// Wallet is a key pair of a person.
type Wallet struct {
	PublicKey string
	private   ed25519.PrivateKey
}

// NewWallet makes a wallet.
func NewWallet() Wallet {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return Wallet{PublicKey: base58.Encode(public), private: private}
}

// Sign signs a text and returns the 64 bytes.
func (w Wallet) Sign(message string) []byte { return ed25519.Sign(w.private, []byte(message)) }

// Answer is the body that answers a challenge.
func (w Wallet) Answer(message string) map[string]any {
	return map[string]any{"publicKey": w.PublicKey, "message": message, "signature": base58.Encode(w.Sign(message))}
}

// AwaitAnchored polls as a client would, and returns the anchored memory.
func (c *Client) AwaitAnchored(session Header, id string) (a Answer) {
	c.t.Helper()
	testkit.Await(c.t, "memory "+id+" is anchored", func() bool {
		a = c.Do("GET", "/memories/"+id, nil, session)
		return a.Status == 200 && a.Field("anchored") == true
	})
	return a
}

// SignIn gives the wallet a session.
func (c *Client) SignIn(w Wallet) Header {
	c.t.Helper()
	return Bearer(c.Token(w))
}

// Token is SignIn for callers that need the token itself.
func (c *Client) Token(w Wallet) string {
	c.t.Helper()
	challenge := c.Expect(http.StatusOK, "POST", "/auth/challenge", map[string]any{"publicKey": w.PublicKey})
	session := c.Expect(http.StatusOK, "POST", "/auth/verify", w.Answer(challenge.Text("message")))
	return session.Text("token")
}
