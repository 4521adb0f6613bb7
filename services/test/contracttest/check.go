package contracttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// exchange is a request and its answer.
type exchange struct {
	method, path  string
	requestHeader http.Header
	requestBody   []byte
	requestKnown  bool // requestBody is all that was sent
	status        int
	header        http.Header
	body          []byte
	bodyKnown     bool // body is all that was meant to be sent
}

// find returns the operation that answers a request, and whether it is one of
// the document's own; if it is not, it is where the answers are described that
// such requests get.
func (d *document) find(x *exchange) (op *operation, found bool) {
	if d.preflight != nil && x.method == http.MethodOptions && x.requestHeader.Get("Access-Control-Request-Method") != "" {
		return d.preflight, true
	}
	method := x.method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if op := d.match(method, x.path); op != nil && (x.method == method || x.status != http.StatusMethodNotAllowed) {
		return op, true
	}
	return d.unmatched, false
}

// match finds the operation of a method for a path; of several, the one whose
// template has a name where the other has a parameter.
func (d *document) match(method, path string) *operation {
	segments := strings.Split(path, "/")
	var best *operation
	for _, op := range d.operations {
		if op.method == method && matches(op.segments, segments) && (best == nil || strings.Contains(best.template, "{")) {
			best = op
		}
	}
	return best
}

func matches(template, path []string) bool {
	return slices.EqualFunc(template, path, func(t, p string) bool {
		if strings.HasPrefix(t, "{") {
			return p != ""
		}
		return t == p
	})
}

// hasRoute reports whether a path has an operation of any method.
func (d *document) hasRoute(path string) bool {
	segments := strings.Split(path, "/")
	return slices.ContainsFunc(d.operations, func(op *operation) bool { return matches(op.segments, segments) })
}

// check returns what is wrong with an exchange, and which operation it was of.
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
	answer, ok := op.responses[x.status]
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
	var all []int
	for status := range op.responses {
		all = append(all, status)
	}
	slices.Sort(all)
	return strings.Trim(fmt.Sprint(all), "[]")
}

func checkHeaders(answer *response, x *exchange) []string {
	var problems []string
	// Compressing an answer that holds a secret may tell it: which ones are is no
	// accident.
	if x.header.Get("Content-Encoding") != "" && !slices.ContainsFunc(answer.headers, func(h header) bool { return h.name == "Content-Encoding" }) {
		problems = append(problems, "compressed, where that is not documented")
	}
	for _, h := range answer.headers {
		values := x.header.Values(h.name)
		if len(values) == 0 {
			if h.required {
				problems = append(problems, "header "+h.name+" is missing")
			}
			continue
		}
		var value any = strings.Join(values, ", ")
		if h.integer {
			if n, err := strconv.ParseInt(strings.Join(values, ", "), 10, 64); err == nil {
				value = json.Number(strconv.FormatInt(n, 10))
			}
		}
		if err := h.schema.Validate(value); err != nil {
			problems = append(problems, fmt.Sprintf("header %s: %.200v: %s", h.name, value, explain(err)))
		}
	}
	return problems
}

func checkBody(answer *response, x *exchange) []string {
	if len(answer.content) == 0 {
		if len(x.body) > 0 {
			return []string{"a body where none is documented"}
		}
		return nil
	}
	schema, mediaType, problem := choose(answer.content, x.header.Get("Content-Type"))
	if problem != "" {
		return []string{problem}
	}
	if err := checkContent(schema, mediaType, x.body); err != nil {
		return []string{"body: " + err.Error()}
	}
	return nil
}

// checkRequest holds a body that was accepted to the document.
func checkRequest(op *operation, x *exchange) []string {
	if len(x.requestBody) == 0 {
		if op.bodyRequired {
			return []string{"accepted without the body that the document requires"}
		}
		return nil
	}
	if op.body == nil {
		return nil // a body where none is asked for is ignored
	}
	schema, mediaType, problem := choose(op.body, x.requestHeader.Get("Content-Type"))
	if problem != "" {
		return []string{"accepted request: " + problem}
	}
	if err := checkContent(schema, mediaType, x.requestBody); err != nil {
		return []string{"accepted request body: " + err.Error()}
	}
	return nil
}

// choose picks the schema for a Content-Type.
func choose(content map[string]*jsonschema.Schema, contentType string) (schema *jsonschema.Schema, mediaType, problem string) {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, "", fmt.Sprintf("content type %q: %v", contentType, err)
	}
	schema, ok := content[mediaType]
	if !ok {
		return nil, "", fmt.Sprintf("content type %s is not documented", mediaType)
	}
	return schema, mediaType, ""
}

// checkContent validates a body against the schema of its media type.
func checkContent(schema *jsonschema.Schema, mediaType string, body []byte) error {
	if mediaType != "application/json" {
		if strings.HasPrefix(mediaType, "text/") && !utf8.Valid(body) {
			return fmt.Errorf("not UTF-8")
		}
		return explained(schema.Validate(string(body)))
	}
	// Stricter than encoding/json: duplicate names, invalid UTF-8 and lone
	// surrogates are no JSON that a client could rely on.
	if !jsontext.Value(body).IsValid() {
		return fmt.Errorf("not valid JSON: %.300q", body)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return explained(schema.Validate(value))
}

func explained(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s", explain(err))
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
