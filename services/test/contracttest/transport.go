package contracttest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"
)

// Transport returns a RoundTripper that sends requests through base (nil:
// http.DefaultTransport) and fails the test for every exchange that is not as
// the API's document has it. The same complaint about the same operation is
// made once. It may be used from many goroutines at a time.
//
// An answer is read to its end before it is handed on, so a test of slow or
// leaving readers is not for it. An answer that breaks off is handed on as far
// as it came, with the error; its status and headers are checked all the same.
func Transport(t testing.TB, api API, base http.RoundTripper) http.RoundTripper {
	t.Helper()
	d, err := documentOf(api)
	if err != nil {
		t.Fatal(err)
	}
	if base == nil {
		base = http.DefaultTransport
	}
	c := &checker{t: t, api: api, document: d, base: base, complained: make(map[string]bool)}
	t.Cleanup(c.end)
	return c
}

type checker struct {
	t        testing.TB
	api      API
	document *document
	base     http.RoundTripper

	mu         sync.Mutex
	complained map[string]bool
	ended      bool // the test is over; it must not be touched any more
}

// RoundTrip implements http.RoundTripper.
func (c *checker) RoundTrip(request *http.Request) (*http.Response, error) {
	sent, copied := record(request)
	answer, err := c.base.RoundTrip(sent)
	if err != nil {
		return answer, err
	}
	body, readErr := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	answer.Body = &replay{reader: bytes.NewReader(body), end: readErr}
	requestBody, requestKnown := copied()
	header, plain := answer.Header, body
	switch {
	case answer.Uncompressed: // by the transport, which then says nothing of it
		header = header.Clone()
		header.Set("Content-Encoding", "gzip")
	case header.Get("Content-Encoding") == "gzip" && readErr == nil:
		plain = gunzip(body)
	}
	op, problems := c.document.check(&exchange{
		method: request.Method, path: pathOf(request), requestHeader: request.Header,
		requestBody: requestBody, requestKnown: requestKnown,
		status: answer.StatusCode, header: header, body: plain, bodyKnown: readErr == nil,
	})
	note(c.api, op, answer.StatusCode)
	for _, problem := range problems {
		c.complain(request, answer.StatusCode, op, body, problem)
	}
	return answer, nil
}

// gunzip returns the text of a body; as it is where it is not gzip.
func gunzip(body []byte) []byte {
	reader, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return body
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		return body
	}
	return text
}

func pathOf(request *http.Request) string {
	if request.URL.Path == "" {
		return "/"
	}
	return request.URL.Path
}

func (c *checker) complain(request *http.Request, status int, op *operation, body []byte, problem string) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprint(op.method, op.template, status, problem)
	if c.ended || c.complained[key] {
		return
	}
	c.complained[key] = true
	c.t.Errorf("contract: %s API: %s %s (%s) answered %d: %s\nbody: %.500s",
		c.api, request.Method, pathOf(request), op.id, status, problem, body)
}

func (c *checker) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if folder := os.Getenv("CONTRACT_COVERAGE"); folder != "" {
		if err := report(folder, c.api); err != nil {
			c.t.Error(err)
		}
	}
}

// record returns the request to send, and a function that returns the body
// that was sent and whether that was all of it.
func record(request *http.Request) (sent *http.Request, copied func() ([]byte, bool)) {
	if request.Body == nil || request.Body == http.NoBody {
		return request, func() ([]byte, bool) { return nil, true }
	}
	r := &recorder{}
	sent = request.Clone(request.Context())
	sent.Body = r.follow(request.Body)
	if again := request.GetBody; again != nil {
		sent.GetBody = func() (io.ReadCloser, error) {
			body, err := again()
			if err != nil {
				return nil, err
			}
			return r.follow(body), nil
		}
	}
	return sent, r.copied
}

// recorder keeps what was read of the newest body that it followed. The
// transport may still be reading when the answer is there.
type recorder struct {
	mu       sync.Mutex
	buffer   bytes.Buffer
	newest   *followed
	complete bool
}

func (r *recorder) follow(body io.ReadCloser) io.ReadCloser {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buffer.Reset()
	r.complete = false
	r.newest = &followed{ReadCloser: body, recorder: r}
	return r.newest
}

func (r *recorder) copied() ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.buffer.Bytes()), r.complete
}

type followed struct {
	io.ReadCloser
	recorder *recorder
}

// Read implements io.Reader.
func (f *followed) Read(p []byte) (int, error) {
	n, err := f.ReadCloser.Read(p)
	r := f.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newest == f {
		r.buffer.Write(p[:n])
		r.complete = err == io.EOF
	}
	return n, err
}

// replay is a body that was read before, with the error that it ended in.
type replay struct {
	reader *bytes.Reader
	end    error
}

// Read implements io.Reader.
func (r *replay) Read(p []byte) (int, error) {
	n, err := r.reader.Read(p)
	if err == io.EOF && r.end != nil {
		err = r.end
	}
	return n, err
}

// Close implements io.Closer.
func (r *replay) Close() error { return nil }
