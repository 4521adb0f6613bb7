package e2e_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// TestTooManyWrites sends forty owners' writes at once to a service that may do two
// things at a time and take sixteen. Each answer is a 201, or a 503 that says when
// to retry. Acknowledged writes are stored, and refused writes are not. A reader is
// served all the while.
func TestTooManyWrites(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Configure: func(c *config.Config) { c.MaxCommands = 2 }})
	core := s.Core[0]
	const owners, each = 40, 15
	sessions := make([]stacktest.Header, owners)
	for i := range sessions {
		sessions[i] = core.SignIn(stacktest.NewWallet())
	}
	reader := core.SignIn(stacktest.NewWallet())
	id := core.Expect(201, "POST", "/memories", map[string]any{"content": "mine"}, reader).Text("id")

	var refused atomic.Int64
	stored := make([]int, owners)
	var group sync.WaitGroup
	begin := make(chan struct{})
	for i := range owners {
		group.Go(func() {
			<-begin
			for n := range each {
				answer := core.Do("POST", "/memories", map[string]any{"content": fmt.Sprint("memory ", n)}, sessions[i])
				switch answer.Status {
				case http.StatusCreated:
					if answer.Number("leafIndex") != stored[i] {
						t.Errorf("owner %d got leaf %d after %d writes", i, answer.Number("leafIndex"), stored[i])
					}
					stored[i]++
				case http.StatusServiceUnavailable:
					if answer.Header.Get("Retry-After") == "" {
						t.Error("a 503 does not say when to come again")
					}
					refused.Add(1)
				default:
					t.Errorf("status %d: %s", answer.Status, answer.Body)
				}
			}
		})
	}
	close(begin)
	for range 50 {
		core.Expect(200, "GET", "/memories/"+id, nil, reader)
	}
	group.Wait()
	if refused.Load() == 0 {
		t.Error("nobody was refused")
	}
	total := 0
	for i, session := range sessions {
		if size := core.Expect(200, "GET", "/log", nil, session).Number("treeSize"); size != stored[i] {
			t.Errorf("owner %d: %d leaves for %d acknowledged writes", i, size, stored[i])
		}
		total += stored[i]
	}
	if total == 0 {
		t.Error("nothing was stored")
	}
	t.Logf("%d stored, %d refused", total, refused.Load())
}
