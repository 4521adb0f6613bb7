package contracttest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/memory-ledger/ledger/services/test/contracttest"
)

// witness is a test that is allowed to fail.
type witness struct {
	testing.TB
	mu         sync.Mutex
	complaints []string
	cleanups   []func()
}

func (w *witness) Helper()          {}
func (w *witness) Cleanup(f func()) { w.cleanups = append(w.cleanups, f) }
func (w *witness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.complaints = append(w.complaints, fmt.Sprintf(format, args...))
}

const (
	hash   = "5346df3b560bcc9c656e2132669b7a4fc953b18a92313e5906f493afe9e3ae59"
	id     = "019ca8d2-7b02-7d18-8f3e-6a1c2b3d4e02"
	memory = `{"id":"` + id + `","content":"c","metadata":{"a":[1]},"leafHash":"` + hash +
		`","leafIndex":0,"batchId":null,"anchored":false,"createdAt":"2026-03-01T09:30:24.514Z","via":null}`
	created = `{"id":"` + id + `","leafHash":"` + hash + `","leafIndex":1}`
	refusal = `{"error":"no","requestId":"r-1"}`
)

// exchange is a request to a fake API, and the fake's answer.
type exchange struct {
	name    string
	api     contracttest.API
	request string // method and path
	headers string // of the request: "Name: value"
	send    string
	status  int
	answer  string
	with    string // headers of the answer, "Name: value" or "-Name" to leave one out, by "|"
	problem string // part of the complaint; empty: all is well
}

var exchanges = []exchange{
	// Correct exchanges cause no complaint.
	{name: "a memory", request: "GET /memories/" + id, status: 200, answer: memory},
	{name: "a memory whose id has a slash and a percent sign", request: "GET /memories/a%2fb", status: 404, answer: `{"error":"no such route"}`},
	{name: "all memories", request: "GET /memories", status: 200, answer: "[" + memory + "," + memory + "]"},
	{name: "a page", request: "GET /memories?limit=1", status: 200, answer: "[]", with: `Link: <http://x/memories?cursor=1>; rel="next"`},
	{name: "a write", request: "POST /memories", send: `{"content":"c","metadata":{"more":1}}`, status: 201, answer: created},
	{name: "a search with no body", request: "POST /memories/search", status: 200, answer: "[]"},
	{name: "a HEAD", request: "HEAD /memories", status: 200},
	{name: "a HEAD that is refused", request: "HEAD /memories/" + id, status: 405, with: "Allow: GET"},
	{name: "an unknown route", request: "GET /nope", status: 404, answer: `{"error":"no such route"}`},
	{name: "an unknown method", request: "PUT /memories", status: 405, answer: `{"error":"method not allowed"}`, with: "Allow: GET, HEAD, POST"},
	{name: "no credential", request: "GET /keys", status: 401, answer: `{"error":"no"}`, with: "WWW-Authenticate: Bearer"},
	{name: "headers too large, no route", request: "GET /nope", status: 431, answer: `{"error":"no"}`},
	{name: "extension error", api: contracttest.Extension, request: "GET /memories", status: 503, answer: `{"error":"no","requestId":"r","cause":"c"}`, with: "Retry-After: 1"},
	{name: "dead case", api: contracttest.Extension, request: "GET /agent-cases/svc_case_x", status: 404, answer: "not found\n", with: "Content-Type: text/plain; charset=utf-8"},
	{name: "dead drop", api: contracttest.Extension, request: "POST /memory-drops/svc_drop_x", send: "{}", status: 404, answer: `{"error":"not found"}`},
	{name: "preflight", api: contracttest.Extension, request: "OPTIONS /anything", headers: "Access-Control-Request-Method: GET", status: 204,
		with: "-Content-Type|Access-Control-Allow-Origin: chrome-extension://abc|Access-Control-Allow-Methods: GET, POST|" +
			"Access-Control-Allow-Headers: Authorization, Content-Type, Idempotency-Key, X-Request-Id|Access-Control-Max-Age: 600"},

	// Wrong exchanges cause a complaint.
	{name: "member missing", request: "GET /memories/" + id, status: 200, answer: strings.Replace(memory, `"batchId":null,`, "", 1), problem: "missing property 'batchId'"},
	{name: "member too many", request: "GET /memories/" + id, status: 200, answer: strings.Replace(memory, `"content"`, `"secret":1,"content"`, 1), problem: "additional properties 'secret' not allowed"},
	{name: "member of the wrong type", request: "GET /memories/" + id, status: 200, answer: strings.Replace(memory, `"leafIndex":0`, `"leafIndex":"0"`, 1), problem: "got string, want integer"},
	{name: "hash in capitals", request: "POST /memories", send: `{"content":"c"}`, status: 201, answer: strings.Replace(created, hash, strings.ToUpper(hash), 1), problem: "/leafHash"},
	{name: "time without milliseconds", request: "GET /memories/" + id, status: 200, answer: strings.Replace(memory, ".514Z", "Z", 1), problem: "/createdAt"},
	{name: "time that is none", request: "GET /memories/" + id, status: 200, answer: strings.Replace(memory, "2026-03-01", "2026-13-01", 1), problem: "date-time"},
	{name: "one bad memory of many", request: "GET /memories", status: 200, answer: "[" + memory + `,{"id":1}]`, problem: "/1"},
	{name: "duplicate names", request: "POST /memories", send: `{"content":"c"}`, status: 201, answer: strings.Replace(created, `{`, `{"leafIndex":1,`, 1), problem: "not valid JSON"},
	{name: "broken JSON", request: "GET /memories", status: 200, answer: "[" + memory, problem: "not valid JSON"},
	{name: "trailing data", request: "GET /memories", status: 200, answer: "[][]", problem: "not valid JSON"},
	{name: "no body", request: "GET /memories", status: 200, problem: "not valid JSON"},
	{name: "undocumented status", request: "GET /memories", status: 418, answer: `{"error":"no"}`, problem: "status 418 is not documented; 200 400 401"},
	{name: "200 for a creation", request: "POST /memories", send: `{"content":"c"}`, status: 200, answer: created, problem: "status 200 is not documented"},
	{name: "redirect", request: "GET /memories", status: 302, with: "Location: /x", problem: "status 302 is not documented"},
	{name: "401 without a scheme", request: "GET /keys", status: 401, answer: `{"error":"no"}`, problem: "header WWW-Authenticate is missing"},
	{name: "503 without Retry-After", request: "GET /keys", status: 503, answer: `{"error":"no"}`, problem: "header Retry-After is missing"},
	{name: "Retry-After that is no number", request: "GET /keys", status: 503, answer: `{"error":"no"}`, with: "Retry-After: soon", problem: "header Retry-After: soon"},
	{name: "no request id", request: "GET /memories", status: 200, answer: "[]", with: "-X-Request-Id", problem: "header X-Request-Id is missing"},
	{name: "an answer that may be cached", request: "GET /memories", status: 200, answer: "[]", with: "Cache-Control: public", problem: "header Cache-Control: public"},
	{name: "an answer that other sites can embed", request: "GET /memories", status: 200, answer: "[]", with: "-Cross-Origin-Resource-Policy", problem: "header Cross-Origin-Resource-Policy is missing"},
	{name: "a broken Link", request: "GET /memories?limit=1", status: 200, answer: "[]", with: "Link: /memories?cursor=1", problem: "header Link"},
	{name: "405 without Allow", request: "PUT /memories", status: 405, answer: `{"error":"no"}`, problem: "header Allow is missing"},
	{name: "404 where there is a route", request: "PUT /memories", status: 404, answer: `{"error":"no"}`, problem: "this request gets 405"},
	{name: "405 where there is none", request: "PUT /nope", status: 405, answer: `{"error":"no"}`, with: "Allow: GET", problem: "this request gets 404"},
	{name: "an undocumented route that answers", request: "GET /debug", status: 200, answer: `{}`, problem: "status 200 is not documented"},
	{name: "wrong content type", request: "GET /memories", status: 200, answer: "[]", with: "Content-Type: text/html", problem: "content type text/html is not documented"},
	{name: "no content type", request: "GET /memories", status: 200, answer: "[]", with: "-Content-Type", problem: "content type"},
	{name: "an error in another form", request: "GET /keys", status: 403, answer: `{"message":"no"}`, problem: "missing property 'error'"},
	{name: "an error with more than the core API tells", request: "GET /keys", status: 403, answer: refusal, problem: "additional properties 'requestId' not allowed"},
	{name: "an extension error without its id", api: contracttest.Extension, request: "GET /memories", status: 401, answer: `{"error":"no"}`, with: "WWW-Authenticate: Bearer", problem: "missing property 'requestId'"},
	{name: "a dead drop that tells more", api: contracttest.Extension, request: "POST /memory-drops/t", send: "{}", status: 404, answer: refusal, problem: "body:"},
	{name: "a dead case in JSON", api: contracttest.Extension, request: "GET /agent-cases/t", status: 404, answer: `{"error":"not found"}`, problem: "content type application/json is not documented"},
	{name: "a dead case in other words", api: contracttest.Extension, request: "GET /agent-cases/t", status: 404, answer: "expired\n", with: "Content-Type: text/plain", problem: "body:"},
	{name: "accepted content of the wrong type", request: "POST /memories", send: `{"content":1}`, status: 201, answer: created, problem: "accepted request body"},
	{name: "accepted nothing", request: "POST /memories", status: 201, answer: created, problem: "accepted without the body"},
	{name: "accepted a range too far", api: contracttest.Extension, request: "POST /memory-drops", send: `{"maxWrites":6}`, status: 201,
		answer: `{"id":"` + id + `","url":"http://x/memory-drops/svc_drop_xER0A41FnkDkcUr--nv42un5g0si9ejsHdQ07LYrUS4","expiresAt":"2026-03-01T09:30:24.514Z",` +
			`"maxWrites":5,"remainingWrites":5,"revokedPreviousCount":0}`, problem: "accepted request body"},
	{name: "accepted another content type", request: "POST /memories", headers: "Content-Type: text/plain", send: `{"content":"c"}`, status: 201, answer: created, problem: "accepted request: content type text/plain"},
}

func TestTransport(t *testing.T) {
	for _, x := range exchanges {
		t.Run(x.name, func(t *testing.T) {
			w := &witness{TB: t}
			body, err := x.run(t, w)
			if err != nil || body != x.answer {
				t.Errorf("the client got %q, %v; want %q", body, err, x.answer)
			}
			got := strings.Join(w.complaints, "\n")
			if x.problem == "" && got != "" || !strings.Contains(got, x.problem) {
				t.Errorf("complaints %q, want %q", got, x.problem)
			}
		})
	}
}

// run sends the request to a server that gives the answer, and returns the
// body that the client got.
func (x *exchange) run(t *testing.T, w *witness) (string, error) {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		h := rw.Header()
		h.Set("Content-Type", "application/json")
		h.Set("X-Request-Id", "r-1")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Opener-Policy", "same-origin-allow-popups")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		for _, line := range strings.Split(x.with, "|") {
			if name, ok := strings.CutPrefix(line, "-"); ok {
				h[name] = nil
			} else if name, value, ok := strings.Cut(line, ": "); ok {
				h.Set(name, value)
			}
		}
		rw.WriteHeader(x.status)
		_, _ = io.WriteString(rw, x.answer)
	}))
	defer server.Close()
	api := x.api
	if api == "" {
		api = contracttest.Core
	}
	method, path, _ := strings.Cut(x.request, " ")
	request, err := http.NewRequestWithContext(context.Background(), method, server.URL+path, strings.NewReader(x.send))
	if err != nil {
		t.Fatal(err)
	}
	if x.send != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if name, value, ok := strings.Cut(x.headers, ": "); ok {
		request.Header.Set(name, value)
	}
	answer, err := contracttest.Transport(w, api, server.Client().Transport).RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

func TestCoverage(t *testing.T) {
	coverage, err := contracttest.Seen(contracttest.Core)
	if err != nil {
		t.Fatal(err)
	}
	before := len(coverage.Missing)
	x := exchange{request: "DELETE /keys/k", status: 409, answer: `{"error":"no"}`} // undocumented: not counted
	_, _ = x.run(t, &witness{TB: t})
	x = exchange{request: "DELETE /keys/k", status: 404, answer: `{"error":"no"}`}
	_, _ = x.run(t, &witness{TB: t})
	coverage, err = contracttest.Seen(contracttest.Core)
	if err != nil {
		t.Fatal(err)
	}
	if len(coverage.Missing) != before-1 {
		t.Errorf("%d missing, were %d", len(coverage.Missing), before)
	}
	if _, err := contracttest.Seen("nonsense"); err == nil {
		t.Error("coverage of an API that there is not")
	}
}
