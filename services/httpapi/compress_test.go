package httpapi

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
)

// numbers are the elements of an array that arrives in parts of 1,000.
type numbers struct {
	next, end int
	before    func(part int) error // called before a part is yielded
}

func (n *numbers) More() bool { return n.next < n.end }

func (n *numbers) Next(_ context.Context, yield func(int) error) error {
	if err := n.before(n.next / 1000); err != nil {
		return err
	}
	for range min(1000, n.end-n.next) {
		_ = yield(n.next)
		n.next++
	}
	return nil
}

func appendNumber(n int, to []byte) ([]byte, error) {
	return append(strconv.AppendInt(append(to, `"number `...), int64(n), 10), strings.Repeat("-", 30)+`"`...), nil
}

// compressing is an app with lists. If goOn is not nil, each part after the first waits
// for it. The failing list fails after its second part.
func compressing(goOn chan struct{}) *App {
	app := streamApp()
	list := func(count int, fails bool) fiber.Handler {
		return app.Compressed(func(c *fiber.Ctx) error {
			return StreamArray(c, &numbers{end: count, before: func(part int) error {
				if part > 0 && goOn != nil {
					<-goOn
				}
				if part > 1 && fails {
					return errors.New("half way")
				}
				return nil
			}}, appendNumber, "", "")
		})
	}
	app.Get("/long", list(20000, false))
	app.Get("/page", list(390, false)) // one part, about 17 kB
	app.Get("/short", list(100, false))
	app.Get("/broken", list(20000, true))
	app.Get("/never", func(c *fiber.Ctx) error { return c.SendString(strings.Repeat("secret", 10000)) })
	app.Get("/refused", app.Compressed(func(*fiber.Ctx) error { return BadRequest(strings.Repeat("m", 20000)) }))
	return app
}

// get sends a request with an Accept-Encoding. It does not decompress the answer.
func get(t *testing.T, url, accept string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		request.Header.Set("Accept-Encoding", accept)
	}
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	answer, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func all(t *testing.T, from io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(from)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

func unzip(t *testing.T, answer *http.Response) *gzip.Reader {
	t.Helper()
	if answer.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("%s is not compressed: %v", answer.Request.URL.Path, answer.Header)
	}
	reader, err := gzip.NewReader(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// TestLongAnswersAreCompressed: long answers are compressed if the client accepts that,
// and hold the same text as uncompressed.
func TestLongAnswersAreCompressed(t *testing.T) {
	t.Parallel()
	url := "http://" + serve(t, compressing(nil))
	for _, path := range []string{"/long", "/page", "/short", "/never", "/refused"} {
		plain := get(t, url+path, "")
		text := all(t, plain.Body)
		for _, accept := range []string{"", "br", "gzip;q=0", "*;q=0", "identity", "gzip;q=0.5, identity;q=0.9"} {
			answer := get(t, url+path, accept)
			if got := all(t, answer.Body); got != text || answer.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s for %q: %d bytes, %v", path, accept, len(got), answer.Header)
			}
			if varies := answer.Header.Get("Vary") == "Accept-Encoding"; varies != (path != "/never") {
				t.Errorf("%s for %q: %v", path, accept, answer.Header)
			}
		}
		answer := get(t, url+path, "br, gzip")
		if path == "/short" || path == "/never" || path == "/refused" {
			if got := all(t, answer.Body); got != text || answer.Header.Get("Content-Encoding") != "" {
				t.Errorf("%s: %d bytes, %v", path, len(got), answer.Header)
			}
			continue
		}
		if got := all(t, unzip(t, answer)); got != text || answer.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %d bytes instead of %d, %v", path, len(got), len(text), answer.Header)
		}
	}
	old := ask(t, strings.TrimPrefix(url, "http://"), "GET /long HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n")
	if answer := read(t, old, "GET"); answer.Header.Get("Content-Encoding") != "" || !strings.HasPrefix(all(t, answer.Body), `["number 0`) {
		t.Errorf("for HTTP/1.0: %v", answer.Header)
	}
	head := ask(t, strings.TrimPrefix(url, "http://"), "HEAD /long HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n")
	if answer := read(t, head, "HEAD"); answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Encoding") != "" {
		t.Errorf("HEAD: %d %v", answer.StatusCode, answer.Header)
	}
}

func TestTakesGzip(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"gzip": true, "GZIP": true, "x-gzip": true, "gzip, deflate, br, zstd": true, "deflate,gzip;q=0.1": true, "*": true, "br, *;q=0.2": true,
		"gzip ; q=1.0": true, "identity, gzip": true, "identity;q=0, *": true,
		"": false, "br": false, "identity": false, "gzip;q=0": false, "gzip;q=0.000": false, "gzip;q=x": false, "gzip;q=2": false, "gzip;q=-1": false,
		"gzip;q=NaN": false, "*;q=0": false, "gzip;q=0, *": false, "gzip;q=0.2, identity": false, "notgzip": false, "gzip, gzip;q=0": true,
	} {
		if got := takesGzip([][]byte{[]byte(header)}); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
	if !takesGzip([][]byte{[]byte("br"), []byte("gzip")}) || takesGzip(nil) {
		t.Error("of several headers, or none")
	}
}
