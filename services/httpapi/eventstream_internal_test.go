package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"
)

// messages is a source of the messages that are sent to it.
type messages struct {
	data    chan string
	ended   atomic.Bool // makes Check fail
	expires time.Time
	closed  chan struct{}
}

func (m *messages) Next(ctx context.Context) (string, []byte, error) {
	select {
	case text, open := <-m.data:
		if !open {
			return "", nil, errors.New("the source failed")
		}
		return text, []byte(`{"is":"` + text + `"}`), nil
	case <-ctx.Done():
		return "", nil, ctx.Err()
	}
}

func (m *messages) Check(context.Context) error {
	if m.ended.Load() {
		return errors.New("ended")
	}
	return nil
}

func (m *messages) Expires() time.Time { return m.expires }

func (m *messages) Close() error { close(m.closed); return nil }

// eventsOf serves a source, sends a request, and returns the open connection.
func eventsOf(t *testing.T, heartbeat time.Duration, raw string) (source *messages, conn net.Conn, lines *bufio.Reader, stop context.CancelFunc) {
	t.Helper()
	app := New(Config{Service: "test", Log: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), NewID: func() string { return "id" }})
	app.heartbeat = heartbeat
	source = &messages{data: make(chan string), closed: make(chan struct{}), expires: time.Now().Add(time.Hour)}
	if strings.HasPrefix(t.Name(), "TestEventStream/it_ends") {
		source.expires = time.Now().Add(300 * time.Millisecond)
	}
	app.Get("/events", func(c *fiber.Ctx) error {
		if !WantsEventStream(c) {
			return c.SendString("a page")
		}
		return app.StreamEvents(c, "7", source)
	})
	addr, stop := serveUntil(t, app)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	return source, conn, bufio.NewReader(conn), stop
}

const asksForEvents = "GET /events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n"

// answerOf reads the head of an answer.
func answerOf(t *testing.T, lines *bufio.Reader) (body *bufio.Reader) {
	t.Helper()
	answer, err := http.ReadResponse(lines, nil)
	if err != nil {
		t.Fatal(err)
	}
	if kind := answer.Header.Get("Content-Type"); answer.StatusCode != 200 || kind != MIMEEventStream {
		t.Fatalf("status %d, %s", answer.StatusCode, kind)
	}
	return bufio.NewReader(answer.Body)
}

func expectText(t *testing.T, body io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(body, got); err != nil || string(got) != want {
		t.Fatalf("%q, %v; want %q", got, err, want)
	}
}

func expectClosed(t *testing.T, source *messages) {
	t.Helper()
	select {
	case <-source.closed:
	case <-time.After(2 * time.Minute):
		t.Error("the source was not closed")
	}
}

func TestEventStream(t *testing.T) {
	t.Parallel()
	const begin = "retry: 1000\nid: 7\n\n"
	t.Run("messages, comments, and the end of the right to them", func(t *testing.T) {
		t.Parallel()
		source, _, lines, _ := eventsOf(t, 200*time.Millisecond, asksForEvents)
		body := answerOf(t, lines)
		expectText(t, body, begin)
		source.data <- "8"
		expectText(t, body, "id: 8\ndata: {\"is\":\"8\"}\n\n")
		expectText(t, body, ":\n\n:\n\n")
		source.ended.Store(true)
		if rest, err := io.ReadAll(body); err != nil || strings.Trim(string(rest), ":\n") != "" {
			t.Errorf("then %q, %v", rest, err)
		}
		expectClosed(t, source)
	})
	t.Run("a busy stream is checked too", func(t *testing.T) {
		t.Parallel()
		source, _, lines, _ := eventsOf(t, 50*time.Millisecond, asksForEvents)
		go func() {
			for {
				select {
				case source.data <- "8":
				case <-source.closed:
					return
				}
			}
		}()
		body := answerOf(t, lines)
		expectText(t, body, begin)
		source.ended.Store(true)
		if _, err := io.Copy(io.Discard, body); err != nil {
			t.Error(err)
		}
		expectClosed(t, source)
	})
	t.Run("the message that ends the right to it is not sent", func(t *testing.T) {
		t.Parallel()
		source, _, lines, _ := eventsOf(t, time.Minute, asksForEvents)
		body := answerOf(t, lines)
		expectText(t, body, begin)
		source.ended.Store(true)
		source.data <- "8"
		if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
			t.Errorf("then %q, %v", rest, err)
		}
		expectClosed(t, source)
	})
	t.Run("it ends when the right to it expires", func(t *testing.T) {
		t.Parallel()
		source, _, lines, _ := eventsOf(t, time.Minute, asksForEvents)
		body := answerOf(t, lines)
		expectText(t, body, begin)
		if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 || time.Now().Before(source.expires) || time.Since(source.expires) > time.Second {
			t.Errorf("then %q, %v, %v late", rest, err, time.Since(source.expires))
		}
		expectClosed(t, source)
	})
	t.Run("a failure breaks the connection", func(t *testing.T) {
		t.Parallel()
		source, _, lines, _ := eventsOf(t, time.Minute, asksForEvents)
		body := answerOf(t, lines)
		close(source.data)
		if _, err := io.ReadAll(body); err == nil {
			t.Error("the stream ended in good order")
		}
		expectClosed(t, source)
	})
	t.Run("the service stops", func(t *testing.T) {
		t.Parallel()
		source, _, lines, stop := eventsOf(t, time.Minute, asksForEvents)
		body := answerOf(t, lines)
		expectText(t, body, begin)
		stop()
		if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
			t.Errorf("then %q, %v", rest, err)
		}
		expectClosed(t, source)
	})
	t.Run("the client leaves", func(t *testing.T) {
		t.Parallel()
		source, conn, lines, _ := eventsOf(t, 100*time.Millisecond, asksForEvents)
		answerOf(t, lines)
		_ = conn.Close()
		expectClosed(t, source)
	})
	t.Run("only the head", func(t *testing.T) {
		t.Parallel()
		source, _, _, _ := eventsOf(t, time.Minute, strings.Replace(asksForEvents, "GET", "HEAD", 1))
		expectClosed(t, source)
	})
	t.Run("HTTP/1.0", func(t *testing.T) {
		t.Parallel()
		_, _, lines, _ := eventsOf(t, time.Minute, strings.Replace(asksForEvents, "HTTP/1.1", "HTTP/1.0", 1))
		if text, err := io.ReadAll(lines); err != nil || !strings.HasSuffix(string(text), "a page") {
			t.Errorf("%q, %v", text, err)
		}
	})
}
