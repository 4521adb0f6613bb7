package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/mcp"
)

// bridged sends lines through a Bridge to a server, and returns the lines of the answers.
func bridged(t *testing.T, server http.HandlerFunc, lines ...string) []string {
	t.Helper()
	s := httptest.NewServer(server)
	defer s.Close()
	var out strings.Builder
	stdio := &sdk.IOTransport{Reader: io.NopCloser(strings.NewReader(strings.Join(lines, "\n") + "\n")), Writer: open{&out}}
	if err := mcp.NewBridge(s.URL, always("secret")).Run(t.Context(), stdio); err != nil {
		t.Error(err)
	}
	return strings.Split(strings.TrimSpace(out.String()), "\n")
}

func always(key string) func() (string, error) { return func() (string, error) { return key, nil } }

type open struct{ io.Writer }

func (open) Close() error { return nil }

// TestEveryCallIsAnswered: every call gets an answer, for any answer or failure of the
// server. A failure does not end the Bridge.
func TestEveryCallIsAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"an answer":            {200, `{"jsonrpc":"2.0","id":7,"result":{"ok":true}}`, `{"ok":true}`},
		"an error of its own":  {400, `{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"wrong header"}}`, "wrong header"},
		"a dead key":           {401, `{"error":"missing or invalid credential"}`, "nothing was done: it is wrong, has expired or was revoked"},
		"a refusal":            {413, `{"error":"body is larger than 1048576 bytes"}`, "Too Large: body is larger than 1048576 bytes"},
		"nothing that fits":    {200, `nope`, "no answer"},
		"busy":                 {503, `{"error":"temporarily unavailable"}`, "Service Unavailable"},
		"a redirect elsewhere": {307, ``, "Temporary Redirect"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := bridged(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/mcp" {
					t.Errorf("%s %v", r.URL, r.Header)
				}
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Location", "http://127.0.0.1:1/mcp")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}, `{"jsonrpc":"2.0","id":7,"method":"ping"}`)
			if len(got) != 1 || !strings.Contains(got[0], c.want) || !strings.Contains(got[0], `"id":7`) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestAnEventStreamIsPassedOn: the server answers a call for news with a stream, whose
// messages reach the client, and the answer comes last.
func TestAnEventStreamIsPassedOn(t *testing.T) {
	t.Parallel()
	s := mcp.New(mcp.Config{Log: slog.New(slog.DiscardHandler)})
	got := bridged(t, s.For(access.Caller{}, nil).ServeHTTP, `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{},"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`)
	if len(got) != 2 || !strings.Contains(got[0], "acknowledged") || !strings.Contains(got[1], `"id":7,"result"`) {
		t.Errorf("%q", got)
	}
}

// TestTheRevisionIsRemembered: after an older client has negotiated a revision, each
// message names that revision.
func TestTheRevisionIsRemembered(t *testing.T) {
	t.Parallel()
	versions := make(chan string, 2)
	server := func(w http.ResponseWriter, r *http.Request) {
		var message struct{ Method string }
		_ = json.NewDecoder(r.Body).Decode(&message)
		if message.Method == "initialize" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}`)
			return
		}
		versions <- r.Header.Get("MCP-Protocol-Version")
		w.WriteHeader(http.StatusAccepted)
	}
	s := httptest.NewServer(http.HandlerFunc(server))
	defer s.Close()
	reader, writer := io.Pipe()
	answered, answers := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mcp.NewBridge(s.URL, always("secret")).Run(context.Background(), &sdk.IOTransport{Reader: reader, Writer: answers})
	}()
	_, _ = io.WriteString(writer, `{"jsonrpc":"2.0","id":1,"method":"initialize"}`+"\n")
	if _, err := answered.Read(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(writer, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	if got := <-versions; got != "2025-06-18" {
		t.Errorf("revision %q", got)
	}
	_ = writer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestAnUncertainCallIsNotRefused: where the service may have done what a call asked for,
// the agent is told so. Where it has surely not, the agent is told that.
func TestAnUncertainCallIsNotRefused(t *testing.T) {
	t.Parallel()
	cut := func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	half := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0",`)
	}
	for _, c := range []struct {
		name, tool string
		server     http.HandlerFunc
		want       string
	}{
		{"cut off", "remember", cut, "may be stored: recall before you repeat"},
		{"half an answer", "remember", half, "may be stored: recall before you repeat"},
		{"a gateway's error", "remember", status(502), "may be stored: recall before you repeat"},
		{"cut off", "correct", cut, "may be stored: recall before you repeat"},
		{"busy", "retract", status(503), "may be retracted"},
		{"cut off", "open_case", cut, "link may exist"},
		{"too large", "remember", status(413), "nothing was done: 413"},
		{"too many", "remember", status(429), "nothing was done: 429"},
		{"cut off", "recall", cut, "no answer"},
	} {
		t.Run(c.name+" "+c.tool, func(t *testing.T) {
			t.Parallel()
			got := bridged(t, c.server, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"`+c.tool+`"}}`)
			if len(got) != 1 || !strings.Contains(got[0], c.want) || strings.Contains(got[0], "rejected") || c.tool == "recall" && strings.Contains(got[0], "may be") {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	var out strings.Builder
	call := io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"remember"}}` + "\n"))
	if err := mcp.NewBridge("http://127.0.0.1:1", always("x")).Run(t.Context(), &sdk.IOTransport{Reader: call, Writer: open{&out}}); err != nil {
		t.Error(err)
	}
	if got := out.String(); !strings.Contains(got, "can't be reached, nothing was done") {
		t.Errorf("nobody listens: %s", got)
	}
	out.Reset()
	call = io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"remember"}}` + "\n"))
	none := func() (string, error) { return "", fs.ErrNotExist }
	if err := mcp.NewBridge("http://127.0.0.1:1", none).Run(t.Context(), &sdk.IOTransport{Reader: call, Writer: open{&out}}); err != nil {
		t.Error(err)
	}
	if got := out.String(); !strings.Contains(got, "can't be read, nothing was done") || strings.Contains(got, "may be stored") {
		t.Errorf("no key: %s", got)
	}
}

// TestANewKeyIsRead: after a refusal, the key is read again, and the call is repeated with
// it. The same key is not tried twice.
func TestANewKeyIsRead(t *testing.T) {
	t.Parallel()
	var tried []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tried = append(tried, r.Header.Get("Authorization"))
		if r.Header.Get("Authorization") != "Bearer new" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, strings.Replace(string(body), `"method":"ping"`, `"result":{}`, 1))
	}))
	defer s.Close()
	keys := []string{"old", "old", "new"}
	next := func() (string, error) {
		key := keys[0]
		keys = keys[1:]
		return key, nil
	}
	ping := `{"jsonrpc":"2.0","id":7,"method":"ping"}` + "\n"
	reader, writer := io.Pipe()
	answered, answers := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- mcp.NewBridge(s.URL, next).Run(context.Background(), &sdk.IOTransport{Reader: reader, Writer: answers})
	}()
	lines := bufio.NewScanner(answered)
	for i, want := range []string{"make a new one", "result", "result"} {
		_, _ = io.WriteString(writer, ping)
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Errorf("call %d: %s, want %q", i, lines.Text(), want)
		}
	}
	_ = writer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := strings.Join(tried, ", "); got != "Bearer old, Bearer old, Bearer new, Bearer new" {
		t.Errorf("tried %s", got)
	}
}
