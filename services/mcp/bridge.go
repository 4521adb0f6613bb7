package mcp

import (
	"bytes"
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

const revisionHeader = "Mcp-Protocol-Version"

// Bridge carries the messages of a client to a server's POST /mcp, and the answers back.
// It does not interpret messages, except to name them in the headers of the protocol.
type Bridge struct {
	url    string
	key    func() (string, error)
	client *http.Client

	revision atomic.Pointer[string] // of the protocol, negotiated by initialize; nil before that

	mu    sync.Mutex
	token string // the last credential
}

var (
	errUnauthorized = errors.New("the service refuses the API key (401), nothing was done: it is wrong, has expired or was revoked. " +
		"Ask the person to make a new one. Unless it is in LEDGER_API_KEY_FILE, this program must then be restarted")
	errNoKey = errors.New("the API key can't be read, nothing was done")
)

// NewBridge returns a Bridge to the core API at a base URL. The function key returns the
// credential. It is called at the first message, and after the service refused the last
// credential: it may read a file that has a new one by then.
func NewBridge(baseURL string, key func() (string, error)) *Bridge {
	// Without pings, an HTTP/2 connection that the network has forgotten, as while the
	// computer slept, stays in use.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second}
	return &Bridge{url: baseURL + "/mcp", key: key, client: &http.Client{
		Timeout:   30 * time.Second,
		Transport: transport,
		// Follow no redirect: another server must not get the credential.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
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
	answer, err := b.exchange(ctx, message, request)
	if request == nil || !request.IsCall() {
		return nil // a notification expects no answer
	}
	if err != nil {
		answer = []jsonrpc.Message{&jsonrpc.Response{ID: request.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}}}
	}
	for _, message := range answer {
		if err := client.Write(ctx, message); err != nil {
			return err
		}
	}
	return nil
}

// named is what the headers of the protocol repeat of a request.
type named struct {
	Name string `json:"name"`
	URI  string `json:"uri"`
	Meta struct {
		Revision string `json:"io.modelcontextprotocol/protocolVersion"`
	} `json:"_meta"`
}

// uncertain is what to do after a call of a tool that may have been done.
var uncertain = map[string]string{
	"remember":     " It may be stored: recall before you repeat it, or repeat it with the same idempotencyKey.",
	"correct":      " It may be stored: recall before you repeat it.",
	"retract":      " It may be retracted; to call again does no harm.",
	"open_case":    " The link may exist; to call again ends it and makes another one.",
	"leave_memory": " The link may exist; to call again ends it and makes another one.",
}

// exchange returns the server's answer to a message, perhaps after notifications. Its errors
// tell an agent whether its call may have been done.
func (b *Bridge) exchange(ctx context.Context, message jsonrpc.Message, request *jsonrpc.Request) ([]jsonrpc.Message, error) {
	body, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return nil, err
	}
	var about named
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	if request != nil {
		_ = json.Unmarshal(request.Params, &about) // the server refuses what is not in this form
		header.Set("Mcp-Method", request.Method)
		if name := about.Name + about.URI; name != "" { // a request has one of them
			header.Set("Mcp-Name", name)
		}
	}
	if revision := about.Meta.Revision; revision != "" {
		header.Set(revisionHeader, revision)
	} else if negotiated := b.revision.Load(); negotiated != nil {
		header.Set(revisionHeader, *negotiated)
	}
	answer, err := b.post(ctx, header, body)
	after := uncertain[about.Name]
	var dial *net.OpError
	switch {
	case errors.Is(err, errUnauthorized), errors.Is(err, errNoKey):
		return nil, err
	case errors.As(err, &dial) && dial.Op == "dial":
		return nil, fmt.Errorf("the service can't be reached, nothing was done: %w", err)
	case err != nil:
		return nil, fmt.Errorf("the service gave no answer: %w.%s", err, after)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body) // a part of it has no response
	if told, response := messagesOf(answer.Header, text); response != nil {
		b.note(request, response)
		return told, nil
	}
	var why struct{ Error string }
	if json.Unmarshal(text, &why) == nil && why.Error != "" {
		answer.Status += ": " + why.Error
	}
	switch {
	case answer.StatusCode >= http.StatusInternalServerError:
		return nil, fmt.Errorf("the service failed: %s.%s", answer.Status, after)
	case answer.StatusCode >= http.StatusMultipleChoices:
		return nil, errors.New("the service refused it, nothing was done: " + answer.Status)
	}
	return nil, fmt.Errorf("the service gave no answer in the protocol's form.%s", after)
}

// messagesOf reads an answer: one message, or a stream of events with a message each. It
// returns the messages up to the response, which is nil if there is none.
func messagesOf(header http.Header, text []byte) (told []jsonrpc.Message, response *jsonrpc.Response) {
	messages := [][]byte{text}
	if strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") {
		messages = bytes.Split(text, []byte("\n"))
	}
	for _, text := range messages {
		message, err := jsonrpc.DecodeMessage(bytes.TrimPrefix(text, []byte("data:")))
		if err != nil {
			continue // a line of an event without data
		}
		told = append(told, message)
		if response, ok := message.(*jsonrpc.Response); ok {
			return told, response
		}
	}
	return nil, nil
}

// note stores the revision of the protocol to which the server has agreed.
func (b *Bridge) note(request *jsonrpc.Request, response *jsonrpc.Response) {
	var result struct{ ProtocolVersion string }
	if request != nil && request.Method == "initialize" && json.Unmarshal(response.Result, &result) == nil {
		b.revision.Store(&result.ProtocolVersion)
	}
}

// post sends a message with the last credential. If the service refuses that one, post sends
// it with another, and returns errUnauthorized if there is none.
func (b *Bridge) post(ctx context.Context, header http.Header, body []byte) (*http.Response, error) {
	for refused := ""; ; {
		token, err := b.other(refused)
		if err != nil {
			return nil, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		request.Header = header.Clone()
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := b.client.Do(request)
		if err != nil || answer.StatusCode != http.StatusUnauthorized {
			return answer, err
		}
		_ = answer.Body.Close()
		refused = token
	}
}

// other returns a credential that is not the refused one.
func (b *Bridge) other(refused string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.token == refused {
		var err error
		if b.token, err = b.key(); err != nil {
			return "", fmt.Errorf("%w: %w", errNoKey, err)
		}
	}
	if b.token == refused {
		return "", errUnauthorized
	}
	return b.token, nil
}
