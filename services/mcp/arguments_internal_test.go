package mcp

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/memory-ledger/ledger/infra/testkit"
)

// TestArgumentsAreRepaired: what models often get wrong is understood.
func TestArgumentsAreRepaired(t *testing.T) {
	t.Parallel()
	remember, recall := schemas(t)["remember"], schemas(t)["recall"]
	for _, c := range []struct {
		of         *tool
		sent, want string
	}{
		{remember, `{"memories":"[{\"content\":\"a\"}]"}`, `{"memories":[{"content":"a"}]}`},
		{remember, `{"memories":["{\"content\":\"a\",\"metadata\":\"{\\\"n\\\":1}\"}"]}`, `{"memories":[{"content":"a","metadata":{"n":1}}]}`},
		{remember, `"{\"memories\":[{\"content\":\"a\"}]}"`, `{"memories":[{"content":"a"}]}`},
		{remember, `{"memories":{"content":"[1]","source":""},"idempotencyKey":null}`, `{"memories":[{"content":"[1]"}]}`},
		{remember, `{"memories":[{"content":"a","source":null,"metadata":{"n":null,"s":"","deep":{"x":[1]}}}]}`, `{"memories":[{"content":"a","metadata":{"deep":{"x":[1]},"n":null,"s":""}}]}`},
		{recall, `{"limit":"5"}`, `{"limit":5}`},
		{recall, `{"limit":20}`, `{"limit":10}`},
		{recall, `{"limit":5.0,"anchored":"true"}`, `{"anchored":true,"limit":5}`},
		{recall, `{"limit":null,"via":"","cursor":"","tags":[],"query":"5"}`, `{"query":"5"}`},
		{recall, `null`, `{}`},
		{recall, ``, `{}`},
	} {
		got, err := checked(c.of.Name, c.of.input, json.RawMessage(c.sent), c.of.example)
		if err != nil || string(got) != c.want {
			t.Errorf("%s %s: %s, %v, want %s", c.of.Name, c.sent, got, err, c.want)
		}
	}
}

// TestArgumentsAreRefusedShortly: a refusal names the wrong fields and shows a right call.
// It repeats nothing long, and nothing that JSON has in more than one way is guessed.
func TestArgumentsAreRefusedShortly(t *testing.T) {
	t.Parallel()
	all := schemas(t)
	long := strings.Repeat("x", 174_000)
	for _, c := range []struct{ of, sent, want string }{
		{"remember", `{"content":"a"}`, "content is unknown (known: idempotencyKey, memories); memories is missing"},
		{"remember", `{"memories":[{"text":"a"}]}`, "memories[0].text is unknown (known: content, metadata, namespace, occurredAt, source, supersedes, tags); memories[0].content is missing"},
		{"remember", `{"memories":[]}`, "memories must have 1 to 32 elements, not 0"},
		{"remember", `{"memories":"` + long + `"}`, "memories must be a list"},
		{"remember", `{"memories":["` + long + `"]}`, "memories[0] must be an object"},
		{"remember", `{"` + long + `":1,"memories":[{"content":"a"}]}`, "is unknown"},
		{"remember", `{"memories":[{"content":""}]}`, "memories[0].content must not be empty"},
		{"remember", `{"memories":[{"content":null}]}`, "memories[0].content is missing"},
		{"remember", `{"memories":[{"content":{"a":1}}]}`, "memories[0].content must be a text"},
		{"remember", `{"memories":"[{\"content\":\"a\",\"content\":\"b\"}]"}`, "memories must be a list"},
		{"remember", `{"memories":[{"content":"a","metadata":"plain"}]}`, "memories[0].metadata must be an object"},
		{"remember", `{"memories":[{"content":"a","metadata":{"n":1e999}}]}`, "too large"},
		{"remember", `{"memories":[{"content":"a","source":"` + long + `"}]}`, "memories[0].source must have at most 80 characters, not 174000"},
		{"remember", `[]`, "the arguments must be an object"},
		{"recall", `{"limit":0}`, "limit must be at least 1"},
		{"recall", `{"limit":2.5}`, "limit must be a whole number"},
		{"recall", `{"limit":"many"}`, "limit must be a whole number"},
		{"recall", `{"via":"friend"}`, "via must be one of [session key drop]"},
		{"recall", `{"anchored":1}`, "anchored must be true or false"},
		{"recall", `{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1}`, "2 more fields are wrong"},
		{"get", `{}`, "id is missing"},
		{"open_case", `{"expiresInMinutes":1441}`, "expiresInMinutes must be at most 1440"},
	} {
		of := all[c.of]
		_, err := checked(of.Name, of.input, json.RawMessage(c.sent), of.example)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasSuffix(err.Error(), "A right call: "+of.example) || len(err.Error()) > 700 {
			t.Errorf("%s %.80s: %.900v, want %s", c.of, c.sent, err, c.want)
		}
	}
	for name, of := range all {
		if _, err := checked(name, of.input, json.RawMessage(of.example), of.example); err != nil {
			t.Errorf("the right call of %s: %v", name, err)
		}
	}
}

// schemas returns all tools by name.
func schemas(t *testing.T) map[string]*tool {
	t.Helper()
	all := map[string]*tool{}
	for _, tool := range New(Config{Log: slog.New(slog.DiscardHandler)}).tools {
		all[tool.Name] = tool
	}
	return all
}

// TestSchemasForAllModels: each tool says what it is for, and its schemas have neither
// boolean schemas nor objects without named members, which Gemini refuses.
func TestSchemasForAllModels(t *testing.T) {
	t.Parallel()
	told := 0 // bytes that a model reads before its first call
	for name, of := range schemas(t) {
		if of.Title == "" || of.Description == "" || of.Annotations == nil || of.Annotations.DestructiveHint == nil || of.Annotations.OpenWorldHint == nil || of.OutputSchema == nil {
			t.Errorf("%s: %+v", name, of)
		}
		told += len(name) + len(of.Title) + len(of.Description)
		for _, property := range of.input.Properties {
			told += len(property.Description)
		}
		for _, schema := range []any{of.InputSchema, of.OutputSchema} {
			raw, err := json.Marshal(schema)
			testkit.Must(t, err)
			var tree any
			testkit.Must(t, json.Unmarshal(raw, &tree))
			plainSchema(t, name, tree)
		}
	}
	if names := strings.Join(slices.Sorted(maps.Keys(schemas(t))), " "); names != "correct fetch get leave_memory open_case prove recall recent remember retract search" {
		t.Errorf("tools: %s", names)
	}
	if told/4 > 1800 {
		t.Errorf("the descriptions take some %d tokens", told/4)
	}
}

func plainSchema(t *testing.T, path string, schema any) {
	t.Helper()
	s, ok := schema.(map[string]any)
	if !ok {
		t.Errorf("%s: the schema is %v", path, schema)
		return
	}
	properties, _ := s["properties"].(map[string]any)
	if _, some := s["additionalProperties"]; some || s["type"] == "object" && len(properties) == 0 {
		t.Errorf("%s: %v", path, s)
	}
	if _, many := s["type"].([]any); many {
		t.Errorf("%s: types %v", path, s["type"])
	}
	for name, member := range properties {
		plainSchema(t, path+"."+name, member)
	}
	if items, some := s["items"]; some {
		plainSchema(t, path+"[]", items)
	}
}

// TestErrorsAreShort: whatever a message holds, the error does not repeat it at length.
// Arguments that a prompt can't have are refused, and null is none.
func TestErrorsAreShort(t *testing.T) {
	t.Parallel()
	s := New(Config{Log: slog.New(slog.DiscardHandler)})
	long := strings.Repeat("x", 100_000)
	for sent, want := range map[string]string{
		`"tools/call","params":{"name":"rember"}`:                                    "there are remember, correct, recall, ",
		`"tools/call","params":{"name":"` + long + `"}`:                              "unknown tool",
		`"tools/call","params":["` + long + `"]`:                                     "invalid params",
		`"` + long + `","params":{}`:                                                 "",
		`"prompts/get","params":{"name":"habits"}`:                                   "there are memory-habits",
		`"prompts/get","params":{"name":"` + long + `"}`:                             "unknown prompt",
		`"resources/read","params":{"uri":"ledger://` + long + `"}`:                  "",
		`"prompts/get","params":{"name":"memory-habits","arguments":null}`:           "Recall first",
		`"prompts/get","params":{"name":"memory-habits","arguments":{"n":5}}`:        "invalid params",
		`"prompts/get","params":{"name":"memory-habits","arguments":"` + long + `"}`: "invalid params",
	} {
		answer := post(t.Context(), s, `{"jsonrpc":"2.0","id":1,"method":`+sent+`}`)
		body, _ := io.ReadAll(answer.Body)
		var message struct {
			ID    int
			Error *jsonrpc.Error
		}
		err := json.Unmarshal(body, &message)
		if (err == nil && message.ID == 1 || answer.Code == http.StatusBadRequest) && len(body) < 4000 && strings.Contains(string(body), want) {
			continue
		}
		t.Errorf("%.90s: %d %.600s", sent, answer.Code, body)
	}
}
