package contracttest

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// exchange is a request and its answer.
type exchange struct {
	method, path  string
	requestHeader http.Header
	requestBody   []byte
	requestKnown  bool // requestBody is the whole body
	status        int
	header        http.Header
	body          []byte
	bodyKnown     bool // body is whole
}

// find returns the operation that answers a request. If no operation does, found is
// false, and op describes the answers that such requests get.
func (d *document) find(x *exchange) (op *operation, found bool) {
	if d.Preflight != nil && x.method == http.MethodOptions && x.requestHeader.Get("Access-Control-Request-Method") != "" {
		return d.Preflight, true
	}
	method := x.method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if op := d.match(method, x.path); op != nil && (x.method == method || x.status != http.StatusMethodNotAllowed) {
		return op, true
	}
	return d.Unmatched, false
}

// match finds the operation of a method for a path. If two templates match, it prefers
// the template without a parameter.
func (d *document) match(method, path string) *operation {
	var best *operation
	for _, op := range d.operations {
		if op.method == method && matches(op.template, path) && (best == nil || strings.Contains(best.template, "{")) {
			best = op
		}
	}
	return best
}

func matches(template, path string) bool {
	return slices.EqualFunc(strings.Split(template, "/"), strings.Split(path, "/"), func(t, p string) bool {
		if strings.HasPrefix(t, "{") {
			return p != ""
		}
		return t == p
	})
}

// hasRoute reports whether a path has an operation of any method.
func (d *document) hasRoute(path string) bool {
	return slices.ContainsFunc(d.operations, func(op *operation) bool { return matches(op.template, path) })
}

// check returns the operation of an exchange, and the problems of the exchange.
func (d *document) check(x *exchange) (*operation, []string) {
	op, found := d.find(x)
	var problems []string
	if !found {
		want := http.StatusNotFound
		if d.hasRoute(x.path) {
			want = http.StatusMethodNotAllowed
		}
		if (x.status == http.StatusNotFound || x.status == http.StatusMethodNotAllowed) && x.status != want {
			problems = append(problems, fmt.Sprintf("status %d; by its routes this request gets %d", x.status, want))
		}
	}
	answer, ok := op.Responses[x.status]
	if !ok {
		return op, append(problems, fmt.Sprintf("status %d is not documented; %s are", x.status, statuses(op)))
	}
	problems = append(problems, checkHeaders(answer, x)...)
	if x.method != http.MethodHead && x.bodyKnown {
		problems = append(problems, checkBody(answer, x)...)
	}
	if found && x.status < 300 && x.method != http.MethodOptions && x.requestKnown {
		problems = append(problems, checkRequest(op, x)...)
	}
	return op, problems
}

func statuses(op *operation) string {
	return strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(op.Responses))), "[]")
}

func checkHeaders(answer *response, x *exchange) []string {
	var problems []string
	// Compression of an answer that holds a secret may reveal the secret. So each
	// operation documents whether its answers may be compressed.
	if _, ok := answer.Headers["Content-Encoding"]; !ok && x.header.Get("Content-Encoding") != "" {
		problems = append(problems, "compressed, where that is not documented")
	}
	for name, h := range answer.Headers {
		if len(x.header.Values(name)) == 0 {
			if h.Required {
				problems = append(problems, "header "+name+" is missing")
			}
			continue
		}
		value := strings.Join(x.header.Values(name), ", ")
		err := h.Schema.Validate(value)
		if n, malformed := strconv.ParseInt(value, 10, 64); err != nil && malformed == nil {
			err = h.Schema.Validate(n)
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("header %s: %.200v: %s", name, value, explain(err)))
		}
	}
	return problems
}

func checkBody(answer *response, x *exchange) []string {
	if len(answer.Content) == 0 {
		if len(x.body) > 0 {
			return []string{"a body where none is documented"}
		}
		return nil
	}
	schema, mediaType, problem := choose(answer.Content, x.header.Get("Content-Type"))
	if problem != "" {
		return []string{problem}
	}
	if err := checkContent(schema, mediaType, x.body); err != nil {
		return []string{"body: " + err.Error()}
	}
	return nil
}

// checkRequest checks a body that the API accepted.
func checkRequest(op *operation, x *exchange) []string {
	if len(x.requestBody) == 0 {
		if op.Body != nil && op.Body.Required {
			return []string{"accepted without the body that the document requires"}
		}
		return nil
	}
	if op.Body == nil {
		return nil // the API ignores a body that is not documented
	}
	schema, mediaType, problem := choose(op.Body.Content, x.requestHeader.Get("Content-Type"))
	if problem != "" {
		return []string{"accepted request: " + problem}
	}
	if err := checkContent(schema, mediaType, x.requestBody); err != nil {
		return []string{"accepted request body: " + err.Error()}
	}
	return nil
}

// choose picks the schema for a Content-Type.
func choose(content map[string]media, contentType string) (s *schema, mediaType, problem string) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, "", fmt.Sprintf("content type %q: %v", contentType, err)
	}
	found, ok := content[mediaType]
	if !ok {
		return nil, "", fmt.Sprintf("content type %s is not documented", mediaType)
	}
	return found.Schema, mediaType, ""
}

// checkContent validates a body against the schema of its media type.
func checkContent(s *schema, mediaType string, body []byte) error {
	var err error
	switch {
	case mediaType == "application/json":
		// Stricter than encoding/json: a client cannot rely on a text with duplicate
		// names, invalid UTF-8 or lone surrogates.
		if !jsontext.Value(body).IsValid() {
			return fmt.Errorf("not valid JSON: %.300q", body)
		}
		err = s.validate(body)
	case mediaType == "application/x-www-form-urlencoded":
		form, malformed := url.ParseQuery(string(body))
		if malformed != nil {
			return malformed
		}
		members := map[string]any{}
		for name := range form {
			members[name] = form.Get(name)
		}
		err = s.Validate(members)
	case strings.HasPrefix(mediaType, "text/") && !utf8.Valid(body):
		return errors.New("not UTF-8")
	default:
		err = s.Validate(string(body))
	}
	if err != nil {
		return errors.New(explain(err))
	}
	return nil
}

// explain puts a validation error on one line, without the schema's address.
func explain(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	if len(lines) > 1 {
		lines = lines[1:]
	}
	for i := range lines {
		lines[i] = strings.TrimPrefix(strings.TrimSpace(lines[i]), "- ")
	}
	return strings.Join(lines, "; ")
}
