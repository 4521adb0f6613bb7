package e2e_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// nest returns an object of the given depth.
func nest(depth int) string {
	return strings.Repeat(`{"a":`, depth-1) + `{}` + strings.Repeat(`}`, depth-1)
}

// TestOddInput sends everything that JSON allows, and more. Stored input comes back
// unchanged, and a refusal says why. After each input, ordinary writes and reads of
// another owner work: odd input never stops a projection.
func TestOddInput(t *testing.T) {
	core := shared(t).Core[0]
	session, bystander := core.SignIn(stacktest.NewWallet()), core.SignIn(stacktest.NewWallet())
	for _, c := range []struct {
		name   string
		body   string
		status int
	}{
		{"nul in content", `{"content":"a\u0000b","metadata":{}}`, 201},
		{"nul in metadata", `{"content":"x","metadata":{"\u0000":"\u0000"}}`, 201},
		{"white space is content", `{"content":"  ","metadata":{}}`, 201},
		{"emoji by surrogates", `{"content":"\ud83d\ude00","metadata":{"e":"\ud83d\ude00"}}`, 201},
		{"huge but finite number", `{"content":"x","metadata":{"n":1.7976931348623157e308}}`, 201},
		{"many digits", `{"content":"x","metadata":{"n":` + strings.Repeat("9", 300) + `}}`, 201},
		{"64 deep", `{"content":"x","metadata":` + nest(64) + `}`, 201},
		{"unknown members", `{"content":"x","metadata":{},"more":[1]}`, 400},
		{"no metadata", `{"content":"x"}`, 201},
		{"most content", `{"content":"` + strings.Repeat("x", 262144) + `","metadata":{}}`, 201},
		{"most metadata", `{"content":"x","metadata":{"k":"` + strings.Repeat("y", 65536-8) + `"}}`, 201},

		{"content too long", `{"content":"` + strings.Repeat("x", 262145) + `","metadata":{}}`, 413},
		{"content too long in bytes", `{"content":"` + strings.Repeat("é", 131073) + `","metadata":{}}`, 413},
		{"metadata too long", `{"content":"x","metadata":{"k":"` + strings.Repeat("y", 65536-7) + `"}}`, 413},
		{"body too long", `{"content":"` + strings.Repeat("x", 1<<20) + `","metadata":{}}`, 413},
		{"empty content", `{"content":"","metadata":{}}`, 400},
		{"no content", `{"metadata":{}}`, 400},
		{"content null", `{"content":null,"metadata":{}}`, 400},
		{"content a number", `{"content":1,"metadata":{}}`, 400},
		{"metadata null", `{"content":"x","metadata":null}`, 400},
		{"metadata an array", `{"content":"x","metadata":[]}`, 400},
		{"metadata a string", `{"content":"x","metadata":"{}"}`, 400},
		{"number beyond a double", `{"content":"x","metadata":{"n":1e400}}`, 400},
		{"lone surrogate in content", `{"content":"\ud800","metadata":{}}`, 400},
		{"lone surrogate in metadata", `{"content":"x","metadata":{"a":"\udc00"}}`, 400},
		{"noncharacter in content", `{"content":"\ufffe","metadata":{}}`, 201},
		{"noncharacter in metadata", "{\"content\":\"x\",\"metadata\":{\"a\":[\"\ufffe\"]}}", 400},
		{"noncharacter in a name", `{"content":"x","metadata":{"\ufdd0":1}}`, 400},
		{"noncharacter beyond the first plane", `{"content":"x","metadata":{"a":"\ud83f\udfff"}}`, 400},
		{"duplicate name in metadata", `{"content":"x","metadata":{"a":1,"a":2}}`, 400},
		{"duplicate name in the body", `{"content":"x","content":"y","metadata":{}}`, 400},
		{"65 deep", `{"content":"x","metadata":` + nest(65) + `}`, 400},
		{"5000 arrays", `{"content":"x","metadata":{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}}`, 400},
		{"100000 arrays elsewhere", `{"content":"x","metadata":{},"z":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, 400},
		{"invalid UTF-8", "{\"content\":\"\xff\",\"metadata\":{}}", 400},
		{"not JSON", `content=x`, 400},
		{"trailing data", `{"content":"x","metadata":{}} {}`, 400},
		{"an array", `[]`, 400},
		{"null", `null`, 400},
		{"nothing", ``, 400},
	} {
		a := core.Do("POST", "/memories", c.body, session)
		if a.Status != c.status {
			t.Errorf("%s: status %d, want %d: %.200s", c.name, a.Status, c.status, a.Body)
		}
		if a.Status >= 400 && a.Text("error") == "" {
			t.Errorf("%s: no error message: %.200s", c.name, a.Body)
		}
		if strings.HasPrefix(c.name, "duplicate") && !strings.Contains(a.Text("error"), "duplicate name") {
			t.Errorf("%s: the error does not say so: %s", c.name, a.Body)
		}
		if a.Status == 201 {
			checkKept(t, core, session, c.name, c.body, a.Text("id"))
		}
		b := core.Expect(201, "POST", "/memories", `{"content":"ordinary","metadata":{}}`, bystander)
		core.Expect(200, "GET", "/memories/"+b.Text("id"), nil, bystander)
	}
}

func checkKept(t *testing.T, core *stacktest.Client, session stacktest.Header, name, sent, id string) {
	t.Helper()
	var want struct {
		Content  string
		Metadata map[string]any
	}
	noErr(t, json.Unmarshal([]byte(sent), &want))
	if want.Metadata == nil {
		want.Metadata = map[string]any{}
	}
	got := decode[view](t, core.Expect(200, "GET", "/memories/"+id, nil, session).Body)
	var metadata map[string]any
	if err := json.Unmarshal(got.Metadata, &metadata); err != nil {
		t.Errorf("%s: metadata: %v", name, err)
	}
	if got.Content != want.Content || fmt.Sprint(metadata) != fmt.Sprint(want.Metadata) {
		t.Errorf("%s: came back as %.200s %.200s", name, got.Content, got.Metadata)
	}
}

func TestExtensionLimits(t *testing.T) {
	c := shared(t).Extension[0]
	session := c.SignIn(stacktest.NewWallet())
	write := func(status int, content, source any) {
		t.Helper()
		a := c.Expect(status, "POST", "/memories", map[string]any{"content": content, "source": source}, session)
		if status == 400 && (a.Text("requestId") == "" || a.Text("error") == "") {
			t.Errorf("error %s", a.Body)
		}
	}
	write(201, strings.Repeat("é", 10000), strings.Repeat("😀", 80))
	write(201, " "+strings.Repeat("x", 10000)+"\n", " s ")
	write(400, strings.Repeat("x", 10001), "s")
	write(400, " \n\t ", "s")
	write(400, "x", strings.Repeat("s", 81))
	write(400, "x", "  ")
	write(400, "x", "s\ufffe")
	write(400, "x", nil)
	write(400, nil, "s")
	write(400, "x", 1)
	write(400, []string{"x"}, "s")
	c.Expect(400, "POST", "/memories", map[string]any{"content": "x", "source": "s", "metadata": 1}, session)
}
