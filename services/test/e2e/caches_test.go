package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// lookups returns the hits and misses of a cache.
func lookups(t *testing.T, c *stacktest.Client, cache string) (hits, misses int) {
	t.Helper()
	of := func(result string) int {
		return int(metric(t, c, fmt.Sprintf(`ledger_cache_lookups_total{cache="%s",result="%s"}`, cache, result)))
	}
	return of("hit"), of("miss")
}

// metric reads the value of a series.
func metric(t *testing.T, c *stacktest.Client, series string) float64 {
	t.Helper()
	answer, err := http.Get(c.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("no series %s", series)
	}
	n, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Each cache misses on the first lookup of an entry and hits on the second.
func TestCachesAreCounted(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Core: 2, Extension: 2})
	first, core, extension := s.Core[0], s.Core[1], s.Extension[0]
	wallet := stacktest.NewWallet()
	session := first.SignIn(wallet) // on another replica, so that the tested caches are empty
	key := stacktest.Bearer(first.Expect(201, "POST", "/keys", map[string]any{"label": "k"}, session).Text("key"))
	other := s.Extension[1].SignIn(wallet)
	memory := map[string]any{"content": "x", "metadata": map[string]any{}}
	id := first.Expect(201, "POST", "/memories", memory, session).Text("id")
	// The first use of a key is an event that reaches the log some time after the answer.
	// It must not arrive between two lookups.
	first.Expect(200, "GET", "/log", nil, key)
	for strings.Contains(string(first.Expect(200, "GET", "/keys", nil, session).Body), `"lastUsedAt":null`) {
	}
	for _, c := range []struct {
		client *stacktest.Client
		caches []string
		again  func()
	}{
		{core, []string{"core_tokens", "states", "keys"}, func() { core.Expect(201, "POST", "/memories", memory, session) }},
		{core, []string{"texts"}, func() { core.Expect(200, "GET", "/memories/"+id, nil, session) }},
		{core, []string{"core_credentials"}, func() { core.Expect(200, "GET", "/memories", nil, key) }},
		{extension, []string{"extension_credentials"}, func() { extension.Expect(200, "GET", "/auth/me", nil, other) }},
	} {
		before := map[string][2]int{}
		note := func() {
			for _, cache := range c.caches {
				h, m := lookups(t, c.client, cache)
				before[cache] = [2]int{h, m}
			}
		}
		// Data that is read while the read models are behind is not cached.
		c.client.Expect(200, "GET", "/readyz", nil)
		note()
		c.again()
		for _, cache := range c.caches {
			if _, m := lookups(t, c.client, cache); m != before[cache][1]+1 {
				t.Errorf("%s: at first %d misses after %d", cache, m, before[cache][1])
			}
		}
		note()
		c.again()
		for _, cache := range c.caches {
			if h, m := lookups(t, c.client, cache); h <= before[cache][0] || m != before[cache][1] {
				t.Errorf("%s: again %d hits and %d misses after %v", cache, h, m, before[cache])
			}
		}
	}
}
