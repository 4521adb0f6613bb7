package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestSearchWithLittleMemory searches many growing logs at once, with memory for less
// than two of them.
func TestSearchWithLittleMemory(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) { c.BodyCacheBytes = 40_000 }})
	core := s.Core[0]
	const owners, each = 4, 60
	var group sync.WaitGroup
	for o := range owners {
		group.Go(func() {
			session := core.SignIn(stacktest.NewWallet())
			for n := range each {
				core.Expect(201, "POST", "/memories", map[string]any{"content": fmt.Sprintf("Owner %d wrote Number %d.", o, n)}, session)
				if n%6 != 5 {
					continue
				}
				for query, want := range map[string]int{fmt.Sprintf("NUMBER %d.", n): 1, fmt.Sprintf("owner %d", o): n + 1, "nobody": 0} {
					found := decode[[]view](t, core.Expect(200, "POST", "/memories/search", map[string]any{"query": query}, session).Body)
					if len(found) != want {
						t.Errorf("search %q found %d, want %d", query, len(found), want)
					}
					for i := 1; i < len(found); i++ {
						if found[i].LeafIndex <= found[i-1].LeafIndex {
							t.Errorf("search %q is not in leaf order", query)
						}
					}
				}
			}
		})
	}
	group.Wait()
}

// TestMadeUpCursorsAreRefused: a ranked cursor that no page can have had is a client's fault,
// and asks for no retry.
func TestMadeUpCursorsAreRefused(t *testing.T) {
	t.Parallel()
	core := stacktest.Start(t, stacktest.Options{}).Core[0]
	owner := core.SignIn(stacktest.NewWallet())
	for range 3 {
		core.Expect(201, "POST", "/memories", map[string]any{"content": "bees"}, owner)
	}
	search := func(status int, cursor string) stacktest.Answer {
		t.Helper()
		return core.Expect(status, "POST", "/memories/search", map[string]any{"query": "bees", "mode": "ranked", "limit": 1, "cursor": cursor}, owner)
	}
	for name, cursor := range map[string]string{
		"of four parts": "r1.3.3ff0000000000000.1", "of a larger log": "r1.4.3ff0000000000000",
		"of a leaf outside": "r3.3.3ff0000000000000",
	} {
		if a := search(400, cursor); !strings.Contains(a.Text("error"), "cursor") {
			t.Errorf("%s: %s", name, a.Body)
		}
	}
	search(200, search(200, "").Header.Get("Next-Cursor"))
}
