package e2e_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestQuotas: an owner's keys and sessions share the owner's quotas, and other owners are
// not limited by them.
func TestQuotas(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) {
		c.QuotaWrites, c.QuotaMints, c.QuotaKeys, c.QuotaSearches = 100, 2, 4, 3
	}})
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	owner, begun := core.SignIn(wallet), time.Now()
	var keys []stacktest.Header
	for range 4 {
		_, key := makeKey(core, owner)
		keys = append(keys, stacktest.Bearer(key))
	}
	core.Expect(429, "POST", "/keys", map[string]any{"label": "x"}, owner)

	// A batch counts as its memories, and many keys get no more than one key.
	var batch []any
	for range 50 {
		batch = append(batch, map[string]any{"content": "x"})
	}
	core.Expect(201, "POST", "/memories/batch", map[string]any{"memories": batch}, owner)
	var stored, refused atomic.Int64
	rush(len(keys), func(client int) {
		for range 25 {
			switch a := core.Do("POST", "/memories", map[string]any{"content": "x"}, keys[client]); a.Status {
			case 201:
				stored.Add(1)
			case 429:
				refused.Add(1)
				if a.Header.Get("Retry-After") != "1" {
					t.Errorf("%v", a.Header)
				}
			default:
				t.Errorf("status %d: %s", a.Status, a.Body)
			}
		}
	})
	// During the writes, time gives back some of the quota, 100 a minute.
	back := int64(time.Since(begun).Minutes()*100) + 1
	if n := stored.Load(); n < 50 || n > 50+back || n+refused.Load() != 100 {
		t.Errorf("%d were stored, %d refused", n, refused.Load())
	}
	if size := core.Expect(200, "GET", "/log", nil, owner).Number("treeSize"); size != 50+int(stored.Load()) {
		t.Errorf("%d leaves", size)
	}
	for range 3 {
		core.Expect(400, "POST", "/memories/search", `{"cursor":"x"}`, keys[0]) // refused input is not counted
		core.Expect(200, "POST", "/memories/search", map[string]any{"query": "x"}, keys[0])
	}
	core.Expect(429, "POST", "/memories/search", map[string]any{"query": "x"}, keys[1])
	if result, text := call(t, agent(t, core, core.Token(wallet)), "recall", map[string]any{"query": "x"}); !result.IsError || !strings.Contains(text, "more than 3 searches a minute") {
		t.Errorf("recall: %s", text)
	}
	core.Expect(200, "GET", "/memories?limit=5", nil, keys[1]) // not a search
	theirs := extension.SignIn(wallet)
	for _, path := range []string{"/agent-cases", "/memory-drops"} {
		extension.Expect(201, "POST", path, nil, theirs)
	}
	extension.Expect(429, "POST", "/memory-drops", nil, theirs)

	// A dead credential still gets 401.
	core.Expect(200, "DELETE", "/auth/sessions", nil, owner)
	extension.Expect(401, "POST", "/memory-drops", nil, theirs)

	// What stores nothing is not counted: a repetition, and what the decision refuses.
	frugal, once := core.SignIn(stacktest.NewWallet()), stacktest.With("Idempotency-Key", "once")
	first := core.Expect(201, "POST", "/memories/batch", map[string]any{"memories": batch}, frugal, once)
	gone := decode[[]view](t, first.Body)[0].ID
	core.Expect(200, "DELETE", "/memories/"+gone, nil, frugal)
	export := core.Expect(200, "GET", "/export", nil, frugal).Body
	for range 3 {
		core.Expect(400, "POST", "/import", "x", frugal, ndjson)
		core.Expect(200, "POST", "/import", export, frugal, ndjson) // its leaves are all there
		core.Expect(201, "POST", "/memories/batch", map[string]any{"memories": batch}, frugal, once)
		core.Expect(410, "POST", "/memories/batch", map[string]any{"memories": append(batch[1:], map[string]any{"content": "x", "supersedes": []string{gone}})}, frugal)
	}
	core.Expect(201, "POST", "/memories/batch", map[string]any{"memories": batch}, frugal)

	other := core.SignIn(stacktest.NewWallet())
	core.Expect(201, "POST", "/memories", map[string]any{"content": "x"}, other)
	core.Expect(200, "POST", "/memories/search", map[string]any{"query": "x"}, other)
}
