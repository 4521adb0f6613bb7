package e2e_test

import (
	"strconv"
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
		c.QuotaWrites, c.QuotaMints, c.QuotaKeys, c.QuotaSearches = 100, 3, 10, 5
	}})
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	owner, begun := core.SignIn(wallet), time.Now()
	var keys []stacktest.Header
	for range 10 {
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
		for range 10 {
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
	for range 5 {
		core.Expect(200, "POST", "/memories/search", map[string]any{"query": "x"}, keys[0])
	}
	core.Expect(429, "POST", "/memories/search", map[string]any{"query": "x"}, keys[1])
	if result, text := call(t, agent(t, core, core.Token(wallet)), "recall", map[string]any{"query": "x"}); !result.IsError || !strings.Contains(text, "more than 5 searches a minute") {
		t.Errorf("recall: %s", text)
	}
	core.Expect(200, "GET", "/memories?limit=5", nil, keys[1]) // not a search
	theirs := extension.SignIn(wallet)
	for _, path := range []string{"/agent-cases", "/memory-drops", "/agent-cases"} {
		extension.Expect(201, "POST", path, nil, theirs)
	}
	extension.Expect(429, "POST", "/memory-drops", nil, theirs)

	// A dead credential still gets 401.
	core.Expect(200, "DELETE", "/auth/sessions", nil, owner)
	extension.Expect(401, "POST", "/memory-drops", nil, theirs)

	other := core.SignIn(stacktest.NewWallet())
	core.Expect(201, "POST", "/memories", map[string]any{"content": "x"}, other)
	core.Expect(200, "POST", "/memories/search", map[string]any{"query": "x"}, other)
}

// TestBytesPerDay: an owner's bytes of a day are counted through all replicas, sessions,
// keys and drops. Refused writes cost nothing, also after a replica has loaded the owner
// from the read models.
func TestBytesPerDay(t *testing.T) {
	t.Parallel()
	const sealing = 12 + 16              // bytes that sealing adds to a text
	const metadata = len(`"source":"s"`) // an empty object is free
	s := stacktest.Start(t, stacktest.Options{Core: 3, Configure: func(c *config.Config) {
		c.QuotaBytesPerDay, c.QuotaWrites = 10*int64(sealing+10+metadata), 20
	}})
	core, extension, wallet := s.Core[0], s.Extension[0], stacktest.NewWallet()
	owner, visitor := core.SignIn(wallet), extension.SignIn(wallet)
	_, secret := makeKey(core, owner, "write")
	memory := func(content string) map[string]any { return map[string]any{"content": content, "source": "s"} }
	ten := memory("0123456789")
	drop := "/memory-drops/" + tokenOf(extension.Expect(201, "POST", "/memory-drops", map[string]any{"maxWrites": 2}, visitor))
	for range 30 { // refused input is not counted, by neither limit
		core.Expect(400, "POST", "/memories", memory(""), owner)
	}
	core.Expect(413, "POST", "/memories", memory(strings.Repeat("x", 262145)), owner)

	once := stacktest.With("Idempotency-Key", "once")
	core.Expect(201, "POST", "/memories", ten, owner, once)
	s.Core[1].Expect(201, "POST", "/memories", ten, stacktest.Bearer(secret))
	extension.Expect(201, "POST", "/memories", ten, visitor)
	extension.Expect(201, "POST", drop, ten)
	s.Core[1].Expect(429, "POST", "/memories/batch", map[string]any{"memories": []any{ten, ten, ten, ten, ten, ten, ten}}, owner)
	s.Core[1].Expect(201, "POST", "/memories/batch", map[string]any{"memories": []any{ten, ten, ten, ten, ten}}, owner)
	a := s.Core[2].Expect(429, "POST", "/memories", memory("0123456789x"), owner) // has loaded the owner now
	if wait, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || wait < 1 || wait > 86400 || !strings.Contains(a.Text("error"), "more than 500 bytes of memories a day") {
		t.Errorf("refused with %v, %s", a.Header, a.Body)
	}
	s.Core[2].Expect(201, "POST", "/memories", ten, owner)
	for _, c := range s.Core {
		c.Expect(429, "POST", "/memories", memory("x"), owner)
		c.Expect(201, "POST", "/memories", ten, owner, once) // a repetition
	}
	extension.Expect(429, "POST", drop, memory("x"))
	if left := extension.Expect(200, "GET", "/memory-drops/"+dropID(t, core, owner)+"/status", nil, visitor).Number("remainingWrites"); left != 1 {
		t.Errorf("%d writes are left on the drop", left)
	}
	if size := core.Expect(200, "GET", "/log", nil, owner).Number("treeSize"); size != 10 {
		t.Errorf("%d leaves", size)
	}
	core.Expect(201, "POST", "/memories", ten, core.SignIn(stacktest.NewWallet()))
}

// dropID returns the id of the owner's live drop.
func dropID(t *testing.T, core *stacktest.Client, owner stacktest.Header) string {
	t.Helper()
	for _, g := range decode[[]liveGrant](t, core.Expect(200, "GET", "/grants", nil, owner).Body) {
		if g.Kind == "memory-drop" {
			return g.ID
		}
	}
	t.Error("the owner has no live drop")
	return ""
}
