package httpapi

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
)

// endless is a body that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'm'
	}
	return len(p), nil
}

var errHalfWay = errors.New("half way")

// TestStreamsByVersion: a body of unknown length is chunked for HTTP/1.1. HTTP/1.0 has no
// chunks, so there the body lasts until the connection ends.
func TestStreamsByVersion(t *testing.T) {
	t.Parallel()
	addr, _ := serveStreams(t)
	whole := strings.Repeat("m", 1<<20)
	for _, test := range []struct{ method, version, want string }{
		{"GET", "1.1", whole}, {"GET", "1.0", whole}, {"HEAD", "1.0", ""},
	} {
		answers := ask(t, addr, test.method+" /whole HTTP/"+test.version+"\r\nHost: x\r\n\r\n")
		answer := read(t, answers, test.method)
		body, err := io.ReadAll(answer.Body)
		if err != nil || string(body) != test.want {
			t.Errorf("%s %s: %d bytes, %v", test.method, test.version, len(body), err)
		}
		chunked := len(answer.TransferEncoding) == 1 && answer.TransferEncoding[0] == "chunked"
		if old := test.version == "1.0"; chunked == old || answer.Close != old || answer.Header.Get("Content-Length") != "" {
			t.Errorf("%s %s: %q, close %v, %v", test.method, test.version, answer.TransferEncoding, answer.Close, answer.Header)
		}
		if answer.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v", test.method, test.version, answer.Header)
		}
		if test.version == "1.0" {
			if _, err := answers.ReadByte(); err != io.EOF {
				t.Errorf("%s: after the body: %v", test.method, err)
			}
		}
	}
	// A HEAD leaves no bytes behind that the next answer would begin with.
	twice := ask(t, addr, strings.Repeat("HEAD /whole HTTP/1.1\r\nHost: x\r\n\r\n", 2))
	for range 2 {
		read(t, twice, "HEAD")
	}
	// Earlier requests on the connection are answered first.
	answers := ask(t, addr, "GET /short HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /whole HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	for _, want := range []string{"short", whole} {
		body, err := io.ReadAll(read(t, answers, "GET").Body)
		if err != nil || string(body) != want {
			t.Errorf("%d bytes, want %d, %v", len(body), len(want), err)
		}
	}
}

// TestStreamsBreakOff: half a body never looks like a whole one.
func TestStreamsBreakOff(t *testing.T) {
	t.Parallel()
	addr, half := serveStreams(t)
	for version, want := range map[string]error{"1.0": syscall.ECONNRESET, "1.1": io.ErrUnexpectedEOF} {
		for range 20 {
			answer := read(t, ask(t, addr, "GET /half HTTP/"+version+"\r\nHost: x\r\n\r\n"), "GET")
			half <- struct{}{} // the beginning has arrived
			if n, err := io.Copy(io.Discard, answer.Body); !errors.Is(err, want) {
				t.Fatalf("%s: %d bytes, %v", version, n, err)
			}
		}
	}
}

// serveStreams serves bodies of each kind until the test ends. The body of /half fails
// half way, when the test sends to half.
func serveStreams(t *testing.T) (addr string, half chan struct{}) {
	t.Helper()
	app := BareApp()
	half = make(chan struct{})
	for path, body := range map[string]func() io.Reader{
		"/whole": func() io.Reader { return io.MultiReader(io.LimitReader(endless{}, 1<<20)) },
		"/half":  func() io.Reader { return io.MultiReader(io.LimitReader(endless{}, 256<<10), failing{half}) },
	} {
		app.Get(path, func(c *fiber.Ctx) error {
			c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
			return Stream(c, body())
		})
	}
	app.Get("/short", func(c *fiber.Ctx) error { return c.SendString("short") })
	return Serve(t, app), half
}

// Serve serves an app until the test ends.
func Serve(t *testing.T, app *App) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Serve(ctx, listener, time.Second) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// Dial connects to an app for the length of the test, which is two minutes at most.
func Dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	return conn
}

// failing fails when now receives.
type failing struct{ now chan struct{} }

func (f failing) Read([]byte) (int, error) {
	<-f.now
	return 0, errHalfWay
}

// ask sends requests unchanged on a new connection.
func ask(t *testing.T, addr, requests string) *bufio.Reader {
	t.Helper()
	conn := Dial(t, addr)
	must(t, errorOf(io.WriteString(conn, requests)))
	return bufio.NewReader(conn)
}

func read(t *testing.T, answers *bufio.Reader, method string) *http.Response {
	t.Helper()
	answer, err := http.ReadResponse(answers, &http.Request{Method: method})
	must(t, err)
	return answer
}
