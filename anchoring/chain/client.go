package chain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// maxReply bounds the bytes of a reply.
const maxReply = 8 << 20

// Client talks to one endpoint. It is safe for concurrent use.
type Client struct {
	url     string
	http    *http.Client
	timeout time.Duration
}

// New returns a client. It does not connect.
func New(endpoint string) (*Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, ErrURL
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16
	// A call that ran into its deadline leaves an HTTP/2 connection in use. If the other end
	// has forgotten the connection, only a ping shows that.
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second}
	return &Client{url: endpoint, http: &http.Client{Transport: transport}, timeout: 10 * time.Second}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// call makes one call and decodes its result.
func (c *Client) call(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	reply, err := c.post(ctx, body)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", method, ErrUnreachable, err)
	}
	var envelope struct {
		Result json.RawMessage `json:"result"`
		Error  *RPCError       `json:"error"`
	}
	if err := json.Unmarshal(reply, &envelope); err != nil {
		return malformed(method)
	}
	if envelope.Error != nil {
		return fmt.Errorf("%s: %w", method, envelope.Error)
	}
	if len(envelope.Result) == 0 {
		return malformed(method)
	}
	if err := json.Unmarshal(envelope.Result, result); err != nil {
		return malformed(method)
	}
	return nil
}

func (c *Client) post(ctx context.Context, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("bad request")
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		// The transport's error quotes the URL; the error inside it does not.
		var quoted *url.Error
		if errors.As(err, &quoted) {
			err = quoted.Err
		}
		return nil, err
	}
	defer response.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(response.Body, maxReply+1))
	switch {
	case err != nil:
		return nil, err
	case len(reply) > maxReply:
		return nil, fmt.Errorf("reply of more than %d bytes", maxReply)
	case response.StatusCode != http.StatusOK && !json.Valid(reply):
		return nil, fmt.Errorf("status %d", response.StatusCode)
	}
	return reply, nil
}
