package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

func batchOf(contents ...string) map[string]any {
	memories := make([]any, len(contents))
	for i, content := range contents {
		memories[i] = map[string]any{"content": content, "metadata": map[string]any{"n": i}}
	}
	return map[string]any{"memories": memories}
}

func numbered(n int) []string {
	contents := make([]string, n)
	for i := range contents {
		contents[i] = fmt.Sprint("memory ", i)
	}
	return contents
}

func TestBatch(t *testing.T) {
	s := shared(t)
	session := s.Core[0].SignIn(stacktest.NewWallet())
	key := stacktest.Bearer(s.Core[0].Expect(201, "POST", "/keys", map[string]any{"label": "x"}, session).Text("key"))
	s.Core[0].Expect(201, "POST", "/memories", batchOf("alone")["memories"].([]any)[0], session)
	wrote := decode[[]view](t, s.Core[0].Expect(201, "POST", "/memories/batch", batchOf(numbered(256)...), key).Body)
	if len(wrote) != 256 {
		t.Fatalf("%d answers", len(wrote))
	}
	listed := decode[[]view](t, s.Core[1].Expect(200, "GET", "/memories", nil, session).Body)[1:]
	for i, w := range wrote {
		m := listed[i]
		if w.LeafIndex != uint64(i+1) || m.ID != w.ID || m.LeafIndex != w.LeafIndex || m.LeafHash != w.LeafHash || m.Content != fmt.Sprint("memory ", i) {
			t.Fatalf("answer %d is %+v, the memory %+v", i, w, m)
		}
	}
	s.Core[1].Expect(200, "GET", "/memories/"+wrote[200].ID+"/receipt", nil, key)

	// A refused batch stores nothing.
	for body, status := range map[string]int{
		`{}`: 400, `{"memories":[]}`: 400, `{"memories":null}`: 400, `{"memories":{}}`: 400, `{"memories":[null]}`: 400,
		`{"memories":[{"content":"x"},{"content":""}]}`:                                                                                               400,
		`{"memories":[{"content":"x"},{"content":"y","metadata":1}]}`:                                                                                 400,
		`{"memories":[` + strings.Repeat(`{"content":"x"},`, 256) + `{"content":"x"}]}`:                                                               400,
		`{"memories":[{"content":"x"},{"content":"` + strings.Repeat("x", 262145) + `"}]}`:                                                            413,
		`{"memories":[` + strings.Repeat(`{"content":"x","metadata":{"n":[`+strings.Repeat("1e20,", 2800)+`1]}},`, 64) + `{"content":"x"}]}`:          413,
		`{"memories":[` + strings.Repeat(`{"content":"`+strings.Repeat("x", 262144)+`"},`, 3) + `{"content":"` + strings.Repeat("x", 262144) + `"}]}`: 413,
	} {
		if a := s.Core[0].Expect(status, "POST", "/memories/batch", body, session); status == 400 && strings.Contains(body, `"content":""`) &&
			a.Text("error") != "memories[1]: content must not be empty" {
			t.Errorf("%s", a.Body)
		}
	}
	// The longest body fits into one message.
	large := `{"memories":[` + strings.Repeat(`{"content":"`+strings.Repeat("x", 4000)+`"},`, 255) + `{"content":"` + strings.Repeat("x", 24000) + `"}]}`
	s.Core[0].Expect(201, "POST", "/memories/batch", large, session)
	if head := s.Core[1].Expect(200, "GET", "/log", nil, session); head.Number("treeSize") != 1+256+256 {
		t.Errorf("log %s", head.Body)
	}
	s.Core[0].Expect(401, "POST", "/memories/batch", batchOf("x"))
}
