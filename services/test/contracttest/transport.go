package contracttest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/iotest"
)

// Transport returns a RoundTripper that sends requests through base (nil:
// http.DefaultTransport) and fails the test for every exchange that differs from
// the API's document. It reports the same problem of the same operation once. It may
// be used from many goroutines at a time.
//
// It reads an answer to its end before it hands the answer on, so a test of slow readers
// cannot use it. If an answer breaks off, the caller gets the part that arrived, and the
// error. Only the status and the headers of such an answer are checked.
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
	ended      bool // the test is over; t must no longer be used
}

// RoundTrip implements http.RoundTripper.
func (c *checker) RoundTrip(request *http.Request) (*http.Response, error) {
	requestBody, requestKnown := bodyOf(request)
	answer, err := c.base.RoundTrip(request)
	if err != nil {
		return answer, err
	}
	body, readErr := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	again := io.Reader(bytes.NewReader(body))
	if readErr != nil {
		again = io.MultiReader(again, iotest.ErrReader(readErr))
	}
	answer.Body = io.NopCloser(again)
	header, plain := answer.Header, body
	switch {
	case answer.Uncompressed: // by the transport, which removes the header
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

// gunzip returns the text of a body, or the body unchanged if it is not gzip.
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
		c.api, request.Method, pathOf(request), op.ID, status, problem, body)
}

func (c *checker) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// bodyOf returns the body of a request, and whether it is known. It is known only if the
// request has GetBody.
func bodyOf(request *http.Request) (body []byte, known bool) {
	if request.Body == nil || request.Body == http.NoBody {
		return nil, true
	}
	if request.GetBody == nil {
		return nil, false
	}
	again, err := request.GetBody()
	if err != nil {
		return nil, false
	}
	body, err = io.ReadAll(again)
	return body, err == nil
}
