package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/memory-ledger/ledger/services/access"
)

// post calls a tool in an older revision, in which the SDK does not bound calls. Without an
// Accept header, the client takes JSON, as any other type.
func post(ctx context.Context, s *Server, body string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(revisionHeader, "2025-06-18")
	answer := httptest.NewRecorder()
	s.For(access.Caller{}, nil).ServeHTTP(answer, request)
	return answer
}

const call1 = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`

// TestACallEndsWithItsRequest: a tool's work ends with its request, in every revision.
func TestACallEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	s, ended := New(Config{Log: slog.New(slog.DiscardHandler)}), make(chan error, 1)
	addTool(s, &tool{input: schemaOf[struct{}](), Tool: sdk.Tool{Name: "wait"}}, func(ctx context.Context, _ call, _ struct{}) (out struct{}, _ string, _ error) {
		cancel(gone)
		select {
		case <-ctx.Done():
			ended <- context.Cause(ctx)
		case <-time.After(time.Minute):
			ended <- errors.New("the context did not end")
		}
		return out, "", ctx.Err()
	})
	answer := post(ctx, s, call1+`wait"}}`)
	select {
	case err := <-ended:
		if !errors.Is(err, gone) {
			t.Errorf("the call ended by %v", err)
		}
	case <-time.After(time.Minute):
		t.Errorf("the call has not ended: %d %s", answer.Code, answer.Body)
	}
}

// TestAFaultIsSurvived: a panic in a tool fails only its call, and the answer reveals no
// details.
func TestAFaultIsSurvived(t *testing.T) {
	t.Parallel()
	s := New(Config{Log: slog.New(slog.DiscardHandler)})
	answer := post(t.Context(), s, call1+`get","arguments":{"id":"x"}}}`)
	if body, _ := io.ReadAll(answer.Body); answer.Code != http.StatusOK || !strings.Contains(string(body), `"error"`) || strings.Contains(string(body), "nil pointer") {
		t.Errorf("%d %s", answer.Code, body)
	}
}

// TestErrorsHaveCodes: in older revisions, too, a client learns from the code that there is
// no such method, and a notification gets no answer. A request can hold only one message, so
// that its work is bounded.
func TestErrorsHaveCodes(t *testing.T) {
	t.Parallel()
	s := New(Config{Log: slog.New(slog.DiscardHandler)})
	for message, want := range map[string]struct {
		status int
		says   string
	}{
		`{"jsonrpc":"2.0","id":"a","method":"nothing"}`:                                      {http.StatusOK, `"id":"a","error":{"code":-32601`},
		`{"jsonrpc":"2.0","method":"notifications/nothing"}`:                                 {http.StatusAccepted, ""},
		`{"jsonrpc":"2.0","id":1}`:                                                           {http.StatusAccepted, ""},
		`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`:                                     {http.StatusBadRequest, "params"},
		" \n[ " + call1 + `recall"}}]`:                                                       {http.StatusBadRequest, "one message"},
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"ledger://log"}}`: {http.StatusOK, `"code":-32603`},
		`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"ledger://no"}}`:  {http.StatusOK, `"code":-32602`},
	} {
		answer := post(t.Context(), s, message)
		if body := answer.Body.String(); answer.Code != want.status || !strings.Contains(body, want.says) || (want.says == "") != (body == "") {
			t.Errorf("%s: %d %s", message, answer.Code, body)
		}
	}
	var told *jsonrpc.Error
	if err := s.explained("resources/read", access.ErrScope); !errors.As(err, &told) || told.Code != jsonrpc.CodeInternalError {
		t.Errorf("%#v", err)
	}
}
