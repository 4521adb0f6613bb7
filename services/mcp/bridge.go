package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"
)

const (
	bridgeTimeout = 30 * time.Second
	versionHeader = "Mcp-Protocol-Version"
)

// Bridge carries the messages of a client to a server's POST /mcp, and the answers back.
// It does not interpret messages, except to learn the protocol revision that an older
// client has negotiated.
type Bridge struct {
	transport *sdk.StreamableClientTransport
	version   atomic.Pointer[string] // negotiated by initialize; nil before that
}

var ErrUnauthorized = errors.New("the service refuses the API key (401): it is wrong or was revoked; make a new one")

// NewBridge returns a Bridge to the core API at a base URL. The function key returns the
// credential. It is called at the first message, and after the service refused the last
// credential: it may read a file that has a new one by then.
func NewBridge(baseURL string, key func() (string, error)) *Bridge {
	b := &Bridge{}
	// Without pings, an HTTP/2 connection that the network has forgotten, as while the
	// computer slept, stays in use.
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.HTTP2 = &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second}
	b.transport = &sdk.StreamableClientTransport{
		Endpoint: baseURL + "/mcp", MaxRetries: -1, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{
			Timeout:   bridgeTimeout,
			Transport: &bearer{base: base, key: key, version: &b.version},
			// Follow no redirect: another server must not get the credential.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	return b
}

// Transport returns a transport for a client in this process.
func (b *Bridge) Transport() sdk.Transport { return b.transport }

// bearer sends the credential with each request. If the server refuses it and there is no
// other one, bearer returns ErrUnauthorized.
type bearer struct {
	base    http.RoundTripper
	key     func() (string, error)
	version *atomic.Pointer[string]

	mu    sync.Mutex
	token string // the last credential
}

func (t *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := t.other("")
	for err == nil {
		var answer *http.Response
		if answer, err = t.send(r, token); err != nil || answer.StatusCode != http.StatusUnauthorized {
			note(r.Context(), answer, err)
			return answer, err
		}
		_ = answer.Body.Close()
		token, err = t.other(token)
	}
	return nil, err
}

// other returns a credential that is not the refused one.
func (t *bearer) other(refused string) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == refused {
		var err error
		if t.token, err = t.key(); err != nil {
			return "", err
		}
	}
	if t.token == refused {
		return "", ErrUnauthorized
	}
	return t.token, nil
}

func (t *bearer) send(r *http.Request, token string) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.GetBody != nil {
		var err error
		if r.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if version := t.version.Load(); version != nil && r.Header.Get(versionHeader) == "" {
		r.Header.Set(versionHeader, *version)
	}
	return t.base.RoundTrip(r)
}

// delivery is what is known about a message that failed.
type delivery struct {
	cause   error  // nil: the service answered
	unsent  bool   // the service was not reached
	refused string // status of a refusal, which changed nothing
	broken  string // any other status but success
}

type deliveryKey struct{}

// note notes what became of a message, if its context has a delivery.
func note(ctx context.Context, answer *http.Response, err error) {
	d, ok := ctx.Value(deliveryKey{}).(*delivery)
	if !ok {
		return
	}
	*d = delivery{cause: err}
	var dial *net.OpError
	switch {
	case err != nil:
		d.unsent = errors.As(err, &dial) && dial.Op == "dial"
	case answer.StatusCode >= http.StatusInternalServerError:
		d.broken = answer.Status
	case answer.StatusCode >= http.StatusMultipleChoices:
		d.refused = answer.Status
	}
}

// uncertain is what to do after a call of a tool that may have been done.
var uncertain = map[string]string{
	"remember":     "It may be stored: recall before you repeat it, or repeat it with the same idempotencyKey.",
	"retract":      "It may be retracted; to call again does no harm.",
	"open_case":    "The link may exist; to call again ends it and makes another one.",
	"leave_memory": "The link may exist; to call again ends it and makes another one.",
}

// explain tells the client what became of its call.
func (d *delivery) explain(request *jsonrpc.Request, err error) string {
	var params struct{ Name string }
	if request.Method == "tools/call" {
		_ = json.Unmarshal(request.Params, &params)
	}
	switch after := uncertain[params.Name]; {
	case errors.Is(err, ErrUnauthorized):
		return ErrUnauthorized.Error()
	case d.unsent:
		return fmt.Sprintf("the service can't be reached, nothing was done: %v", d.cause)
	case d.refused != "":
		return "the service refused it, nothing was done: " + d.refused
	case d.broken != "":
		return strings.TrimSpace("the service failed: " + d.broken + ". " + after)
	case d.cause != nil:
		return strings.TrimSpace(fmt.Sprintf("the service gave no answer: %v. %s", d.cause, after))
	default:
		return strings.TrimSpace(fmt.Sprintf("%v. %s", err, after))
	}
}

// Run carries messages until the client closes its connection. It then waits until the
// messages in flight are answered.
func (b *Bridge) Run(ctx context.Context, client sdk.Transport) error {
	conn, err := client.Connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	var group errgroup.Group
	group.SetLimit(16)
	for {
		message, err := conn.Read(ctx)
		if err != nil {
			if errors.Is(err, io.EOF) || ctx.Err() != nil {
				err = nil
			}
			return errors.Join(err, group.Wait())
		}
		group.Go(func() error { return b.carry(ctx, conn, message) })
	}
}

// carry sends one message to the server and the server's answer to the client. A call
// always gets an answer.
func (b *Bridge) carry(ctx context.Context, client sdk.Connection, message jsonrpc.Message) error {
	request, _ := message.(*jsonrpc.Request)
	var fate delivery
	err := b.exchange(context.WithValue(ctx, deliveryKey{}, &fate), client, message, request)
	if err == nil || request == nil || !request.IsCall() {
		return nil // a notification expects no answer
	}
	var told *jsonrpc.Error                            // from the server, or from the SDK if it could not send
	if !errors.As(err, &told) || told.Code == -32005 { // the SDK could not deliver it
		told = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fate.explain(request, err)}
	}
	return client.Write(ctx, &jsonrpc.Response{ID: request.ID, Error: told})
}

// exchange sends one message over its own connection: the server keeps no session, and a
// failure then affects only this message.
func (b *Bridge) exchange(ctx context.Context, client sdk.Connection, message jsonrpc.Message, request *jsonrpc.Request) error {
	ctx, cancel := context.WithTimeout(ctx, bridgeTimeout)
	defer cancel()
	server, err := b.transport.Connect(ctx)
	if err != nil {
		return err
	}
	defer server.Close()
	if err := server.Write(ctx, message); err != nil || request == nil || !request.IsCall() {
		return err
	}
	for {
		answer, err := server.Read(ctx)
		if err != nil {
			return fmt.Errorf("the service gave no answer: %w", err)
		}
		response, last := answer.(*jsonrpc.Response)
		if last && request.Method == "initialize" {
			b.negotiated(response)
		}
		if err := client.Write(ctx, answer); err != nil || last {
			return err
		}
	}
}

// negotiated stores the protocol revision that the server has agreed to.
func (b *Bridge) negotiated(response *jsonrpc.Response) {
	var result struct{ ProtocolVersion string }
	if json.Unmarshal(response.Result, &result) == nil && result.ProtocolVersion != "" {
		b.version.Store(&result.ProtocolVersion)
	}
}
