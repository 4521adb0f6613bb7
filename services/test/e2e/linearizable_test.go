package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// history records the operations of many concurrent clients, and the answers. A checker
// then asks whether some sequential order of the operations explains every answer.
type history struct {
	t     *testing.T
	start time.Time // operations are timed by the monotonic clock

	mu         sync.Mutex
	operations []porcupine.Operation
}

func newHistory(t *testing.T) *history { return &history{t: t, start: time.Now()} }

// do runs an operation of a client and records it.
func (h *history) do(client int, input ask, carryOut func() reply) reply {
	called := time.Since(h.start)
	answer := carryOut()
	op := porcupine.Operation{
		ClientId: client, Input: input, Call: int64(called), Output: answer, Return: int64(time.Since(h.start)),
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, op)
	return answer
}

// count returns how many operations of a name were answered with ok, and how many were
// refused.
func (h *history) count(what string) (ok, refused int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range h.operations {
		switch {
		case op.Input.(ask).what != what:
		case op.Output.(reply).ok:
			ok++
		default:
			refused++
		}
	}
	return ok, refused
}

func (h *history) check(model porcupine.Model) {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if result := porcupine.CheckOperationsTimeout(model, thin(h.operations), 60*time.Second); result != porcupine.Ok {
		h.t.Errorf("%s: no order explains %v", result, h.operations)
	}
}

// thin leaves out operations that other operations imply, because the checker tries every
// order of concurrent operations. The objects here only move forward: a grant's status is
// true for one stretch of time, and a dead grant stays dead. So of all refused uses of a
// grant, the one that returned first implies the rest: the grant was dead by then. And of
// all equal statuses, the one that returned first and the one that was called last imply
// the rest.
func thin(all []porcupine.Operation) []porcupine.Operation {
	type group struct {
		ask
		reply
	}
	groupOf := func(op porcupine.Operation) group { return group{op.Input.(ask), op.Output.(reply)} }
	first, last := map[group]int{}, map[group]int{} // indexes
	for i, op := range all {
		g := groupOf(op)
		if f, ok := first[g]; !ok || op.Return < all[f].Return {
			first[g] = i
		}
		if l, ok := last[g]; !ok || op.Call > all[l].Call {
			last[g] = i
		}
	}
	var kept []porcupine.Operation
	for i, op := range all {
		g := groupOf(op)
		implied := false
		switch g.what {
		case "use":
			implied = !g.ok && first[g] != i
		case "status":
			implied = first[g] != i && last[g] != i
		}
		if !implied {
			kept = append(kept, op)
		}
	}
	return kept
}

// ask is a client's request; reply is the answer.
type (
	ask struct {
		what    string
		id      string // of the grant, if there are several; or the text that is written or read
		session string // that the request made or was sent with
	}
	reply struct {
		ok        bool   // used, minted, let in; revoked, by this request or before; logged out by this very request
		id        string // mint
		previous  int    // mint: how many others it revoked
		used      int    // status; erase: the number of leaves
		remaining int    // status
		revoked   bool   // status; read, list: gone
		texts     string // list: all of them, as a set
	}
)

func modelOf[S any](initial S, step func(s S, in ask, out reply) (bool, S)) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, output any) (bool, any) {
			return step(state.(S), input.(ask), output.(reply))
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v -> %v", input, output) },
	}
}

// grantModel models an agent case or a memory drop with so many uses as one object that
// does one thing at a time: "use", "revoke", "status".
func grantModel(uses int) porcupine.Model {
	type state struct {
		used    int
		revoked bool
	}
	return modelOf(state{}, func(s state, in ask, out reply) (bool, state) {
		live := s.used < uses && !s.revoked
		switch in.what {
		case "use":
			if live {
				s.used++
			}
			return out.ok == live, s
		case "revoke":
			// A repeated revocation gets the same answer as the first one.
			s.revoked = s.revoked || live
			return out.ok == s.revoked, s
		default:
			return out.used == s.used && out.remaining == uses-s.used && out.revoked == s.revoked, s
		}
	})
}

// mintModel models all of an owner's grants of one kind, with so many uses each: "mint"
// makes a grant and revokes the previous one; "use" and "status" name a grant by its ID.
func mintModel(uses int) porcupine.Model {
	type state struct {
		active string // "": none was minted
		used   int    // of the active grant
		before string // "id:used;" of earlier grants; sorted, because states are compared
	}
	retire := func(s state) string {
		if s.active == "" {
			return ""
		}
		all := append(strings.SplitAfter(s.before, ";"), fmt.Sprintf("%s:%d;", s.active, s.used))
		slices.Sort(all)
		return strings.Join(all, "")
	}
	return modelOf(state{}, func(s state, in ask, out reply) (bool, state) {
		live := s.active != "" && s.used < uses
		switch in.what {
		case "mint":
			previous := 0
			if live {
				previous = 1
			}
			s.before, s.active, s.used = retire(s), out.id, 0
			return out.ok && out.previous == previous, s
		case "use":
			hit := live && in.id == s.active
			if hit {
				s.used++
			}
			return out.ok == hit, s
		default:
			if in.id == s.active {
				return !out.revoked && out.used == s.used, s
			}
			// A grant that was spent before the next mint was not revoked.
			return strings.Contains(s.before, fmt.Sprintf("%s:%d;", in.id, out.used)) && out.revoked == (out.used < uses), s
		}
	})
}

// credentialModel models an API key or an extension session: "end" revokes it, and all
// other requests are let in until then. A repeated end gets the same answer.
func credentialModel() porcupine.Model {
	return modelOf(false, func(dead bool, in ask, out reply) (bool, bool) {
		if in.what == "end" {
			return out.ok, true
		}
		return out.ok == !dead, dead
	})
}

// textsModel models an owner's memories: "write" a text, "read" an acknowledged text,
// "list" all texts, and "erase", which removes all texts. A request that was not let in
// says nothing about the memories.
func textsModel() porcupine.Model {
	type state struct {
		texts  string // a set
		leaves int
	}
	model := modelOf(state{texts: setOf()}, func(s state, in ask, out reply) (bool, state) {
		switch in.what {
		case "erase":
			return out.used == s.leaves, state{setOf(), s.leaves}
		case "write":
			return true, state{setOf(s.texts, in.id), s.leaves + 1}
		case "read":
			return out.revoked != inSet(s.texts, in.id), s
		default:
			return out.texts == s.texts, s
		}
	})
	model.Partition = func(all []porcupine.Operation) [][]porcupine.Operation {
		return [][]porcupine.Operation{slices.DeleteFunc(slices.Clone(all), func(op porcupine.Operation) bool {
			return op.Input.(ask).what == "sign in" || !op.Output.(reply).ok || op.Output.(reply).revoked && duringErasure(all, op)
		})}
	}
	return model
}

// duringErasure reports whether an erasure overlaps an operation. The key is destroyed
// before the log says so, and some replicas have it in memory until then. So one replica
// may answer that a text is gone while another still has it.
func duringErasure(all []porcupine.Operation, op porcupine.Operation) bool {
	return slices.ContainsFunc(all, func(e porcupine.Operation) bool {
		return e.Input.(ask).what == "erase" && e.Call < op.Return && op.Call < e.Return
	})
}

// sessionsModel models each of an owner's sessions: "sign in" makes it, "erase" ends it,
// and all other requests are let in between. An erasure ends sessions one after the
// other, so each session ends at its own moment.
func sessionsModel() porcupine.Model {
	type state struct{ live, dead bool }
	model := modelOf(state{}, func(s state, in ask, out reply) (bool, state) {
		switch in.what {
		case "sign in":
			return out.ok, state{live: true}
		case "erase":
			return out.ok, state{dead: s.live || s.dead}
		default:
			return out.ok == s.live, s
		}
	})
	model.Partition = func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
		of, erasures := map[string][]porcupine.Operation{}, []porcupine.Operation(nil)
		for _, op := range all {
			if in := op.Input.(ask); in.what == "erase" {
				erasures = append(erasures, op)
			} else {
				of[in.session] = append(of[in.session], op)
			}
		}
		for _, part := range of {
			parts = append(parts, append(part, erasures...))
		}
		return parts
	}
	return model
}

// setOf returns a set of words as a text, because states are compared. Its arguments are
// sets and single words.
func setOf(words ...string) string {
	all := strings.Fields(strings.Join(words, " "))
	slices.Sort(all)
	return " " + strings.Join(all, " ") + " "
}

func inSet(set, word string) bool { return strings.Contains(set, " "+word+" ") }

// TestTheCheckerBites: each model refuses the bad histories that it is for.
func TestTheCheckerBites(t *testing.T) {
	t.Parallel()
	type op = struct {
		call, back int64
		ask        ask
		reply      reply
	}
	yes, no := reply{ok: true}, reply{}
	use, end := ask{what: "use"}, ask{what: "end"}
	signIn, erase, list := ask{what: "sign in", session: "s"}, ask{what: "erase"}, ask{what: "list", session: "s"}
	write := ask{"write", "x", "s"}
	for name, c := range map[string]struct {
		model porcupine.Model
		good  []op
		bad   []op
	}{
		"overspent": {
			grantModel(1),
			[]op{{0, 10, use, yes}, {1, 5, use, no}},
			[]op{{0, 10, use, yes}, {1, 5, use, yes}},
		},
		"used after the revocation was acknowledged": {
			grantModel(2),
			[]op{{0, 10, ask{what: "revoke"}, yes}, {5, 15, use, yes}},
			[]op{{0, 10, ask{what: "revoke"}, yes}, {11, 15, use, yes}},
		},
		"a status that is old": {
			grantModel(2),
			[]op{{0, 10, use, yes}, {9, 20, ask{what: "status"}, reply{remaining: 2}}},
			[]op{{0, 10, use, yes}, {11, 20, ask{what: "status"}, reply{remaining: 2}}},
		},
		"two active at a time": {
			mintModel(1),
			[]op{
				{0, 5, ask{what: "mint"}, reply{ok: true, id: "a"}}, {6, 9, ask{what: "mint"}, reply{ok: true, id: "b", previous: 1}},
				{10, 15, ask{what: "use", id: "a"}, no}, {10, 15, ask{what: "use", id: "b"}, yes},
			},
			[]op{
				{0, 5, ask{what: "mint"}, reply{ok: true, id: "a"}}, {6, 9, ask{what: "mint"}, reply{ok: true, id: "b", previous: 1}},
				{10, 15, ask{what: "use", id: "a"}, yes}, {10, 15, ask{what: "use", id: "b"}, yes},
			},
		},
		"let in after the logout": {
			credentialModel(),
			[]op{{0, 10, end, yes}, {5, 15, use, yes}, {16, 20, use, no}},
			[]op{{0, 10, end, yes}, {11, 15, use, yes}},
		},
		"a list with a text from before the erasure": {
			textsModel(),
			[]op{{2, 3, write, yes}, {4, 10, erase, reply{ok: true, used: 1}}, {5, 15, list, reply{ok: true, texts: setOf("x")}}},
			[]op{{2, 3, write, yes}, {4, 10, erase, reply{ok: true, used: 1}}, {11, 15, list, reply{ok: true, texts: setOf("x")}}},
		},
		"a write that the erasure did not count": {
			textsModel(),
			[]op{{2, 5, write, yes}, {4, 10, erase, yes}},
			[]op{{2, 3, write, yes}, {4, 10, erase, yes}},
		},
		"let in after the erasure by a session from before": {
			sessionsModel(),
			[]op{{0, 1, signIn, yes}, {4, 10, erase, yes}, {5, 15, list, yes}, {16, 20, list, no}},
			[]op{{0, 1, signIn, yes}, {4, 10, erase, yes}, {11, 15, list, yes}},
		},
	} {
		operations := func(list []op) (all []porcupine.Operation) {
			for i, o := range list {
				all = append(all, porcupine.Operation{ClientId: i, Input: o.ask, Call: o.call, Output: o.reply, Return: o.back})
			}
			return all
		}
		if !porcupine.CheckOperations(c.model, thin(operations(c.good))) {
			t.Errorf("%s: a good history is refused", name)
		}
		if porcupine.CheckOperations(c.model, thin(operations(c.bad))) {
			t.Errorf("%s: is not found out", name)
		}
	}
}
