package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"
)

const (
	bridgeTimeout = 30 * time.Second
	pingTimeout   = 5 * time.Second
	// bridged bounds the messages in flight.
	bridged = 16

	versionHeader = "Mcp-Protocol-Version"
	// codeRejected is the SDK's error code for a message that it could not deliver.
	codeRejected = -32005
)

// Bridge carries the messages of a client to a server's POST /mcp, and the answers back.
// It does not interpret messages, except to learn the protocol revision that an older
// client has negotiated.
type Bridge struct {
	transport *sdk.StreamableClientTransport
	version   atomic.Pointer[string] // negotiated by initialize; nil before that
}

// ErrUnauthorized means that the service refuses the credential.
var ErrUnauthorized = errors.New("the service refuses the API key (401): it is wrong or was revoked; make a new one")

// NewBridge returns a Bridge to the core API at a base URL, with a credential.
func NewBridge(baseURL, token string) *Bridge {
	b := &Bridge{}
	// Without pings, an HTTP/2 connection that the network has forgotten, as while the
	// computer slept, stays in use.
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingTimeout, PingTimeout: pingTimeout}
	b.transport = &sdk.StreamableClientTransport{
		Endpoint: baseURL + "/mcp", MaxRetries: -1, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{
			Timeout:   bridgeTimeout,
			Transport: bearer{base: base, token: token, version: &b.version},
			// Follow no redirect: another server must not get the credential.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	return b
}

// Transport returns a transport for a client in this process.
func (b *Bridge) Transport() sdk.Transport { return b.transport }

// bearer sends the credential with each request. If the server refuses the credential,
// bearer returns ErrUnauthorized.
type bearer struct {
	base    http.RoundTripper
	token   string
	version *atomic.Pointer[string]
}

// RoundTrip implements http.RoundTripper.
func (t bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+t.token)
	if version := t.version.Load(); version != nil && r.Header.Get(versionHeader) == "" {
		r.Header.Set(versionHeader, *version)
	}
	answer, err := t.base.RoundTrip(r)
	if err == nil && answer.StatusCode == http.StatusUnauthorized {
		_ = answer.Body.Close()
		return nil, ErrUnauthorized
	}
	return answer, err
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
	group.SetLimit(bridged)
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
	err := b.exchange(ctx, client, message, request)
	if err == nil || request == nil || !request.IsCall() {
		return nil // a notification expects no answer
	}
	var told *jsonrpc.Error // from the server, or from the SDK if it could not send
	if !errors.As(err, &told) || told.Code == codeRejected {
		told = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
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
