package e2e_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/memory-ledger/ledger/services/stacktest"
)

// What is done to a drop, and what is answered.
type (
	dropAsk    struct{ what string } // "write", "revoke" or "status"
	dropAnswer struct {
		ok        bool // written; revoked by this very request
		remaining int  // status
		revoked   bool // status
	}
	dropState struct {
		remaining int
		revoked   bool
	}
)

// dropModel is a memory drop as one object that does one thing at a time.
func dropModel(writes int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return dropState{remaining: writes} },
		Step: func(state, input, output any) (bool, any) {
			s, a := state.(dropState), output.(dropAnswer)
			live := s.remaining > 0 && !s.revoked
			switch input.(dropAsk).what {
			case "write":
				if live {
					s.remaining--
				}
				return a.ok == live, s
			case "revoke":
				s.revoked = s.revoked || live
				return a.ok == live, s
			default:
				return a.remaining == s.remaining && a.revoked == s.revoked, s
			}
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v -> %v", input, output) },
	}
}

// TestDropsAreLinearizable lets many holders and the owner work on one drop
// through two replicas, and asks a checker whether some order of what they
// did, one after the other, explains everything they were answered.
func TestDropsAreLinearizable(t *testing.T) {
	t.Parallel()
	s := stacktest.Start(t, stacktest.Options{Extension: 2})
	session := s.Extension[0].SignIn(stacktest.NewWallet())
	for round := range 6 {
		const writes = 4
		drop := s.Extension[0].Expect(201, "POST", "/memory-drops", map[string]any{"maxWrites": writes}, session)
		path := drop.Text("url")[strings.Index(drop.Text("url"), "/memory-drops/"):]
		own := "/memory-drops/" + drop.Text("id")
		var mu sync.Mutex
		var history []porcupine.Operation
		var group sync.WaitGroup
		for client := range 8 {
			group.Go(func() {
				for n := range 4 {
					what := []string{"write", "status"}[n%2]
					if round%2 == 1 && client == 7 && n == 2 {
						what = "revoke"
					}
					call := time.Now().UnixNano()
					answer := askDrop(t, s.Extension[(client+n)%2], session, path, own, what)
					op := porcupine.Operation{ClientId: client, Input: dropAsk{what}, Call: call, Output: answer, Return: time.Now().UnixNano()}
					mu.Lock()
					history = append(history, op)
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if result := porcupine.CheckOperationsTimeout(dropModel(writes), history, 20*time.Second); result != porcupine.Ok {
			t.Errorf("round %d: %s: %v", round, result, history)
		}
	}
}

func askDrop(t *testing.T, c *stacktest.Client, session stacktest.Header, path, own, what string) dropAnswer {
	t.Helper()
	switch what {
	case "write":
		a := c.Do("POST", path, map[string]any{"content": "x"})
		if a.Status != 201 && a.Status != 404 {
			t.Errorf("write: status %d: %s", a.Status, a.Body)
		}
		return dropAnswer{ok: a.Status == 201}
	case "revoke":
		a := c.Expect(200, "POST", own+"/revoke", nil, session)
		return dropAnswer{ok: a.Field("revoked") == true}
	default:
		a := c.Expect(200, "GET", own+"/status", nil, session)
		return dropAnswer{remaining: a.Number("remainingWrites"), revoked: a.Field("revoked") == true}
	}
}

// TestTheCheckerBites: a drop that gives one write too many is found out.
func TestTheCheckerBites(t *testing.T) {
	t.Parallel()
	write := func(client int, call, back int64, ok bool) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: dropAsk{"write"}, Call: call, Output: dropAnswer{ok: ok}, Return: back}
	}
	good := []porcupine.Operation{write(0, 0, 10, true), write(1, 1, 5, false)}
	if porcupine.CheckOperations(dropModel(1), good) != true {
		t.Error("a good history is refused")
	}
	bad := []porcupine.Operation{write(0, 0, 10, true), write(1, 1, 5, true)}
	if porcupine.CheckOperations(dropModel(1), bad) != false {
		t.Error("an overspent drop is not found out")
	}
}
