package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// modelMemory is a memory of the model: what the rules say of it.
type modelMemory struct {
	id, text   string
	hash       string
	supersedes []int // places of the memories, all earlier
	retracted  bool
}

// lifeModel follows the rules of corrections.
type lifeModel []modelMemory

// supersededBy returns the places of the memories that correct one, newest first.
func (m lifeModel) supersededBy(place int) (by []int) {
	for later := len(m) - 1; later > place; later-- {
		if !m[later].retracted && slices.Contains(m[later].supersedes, place) {
			by = append(by, later)
		}
	}
	return by
}

// alike returns the places of all memories that have the hash of one.
func (m lifeModel) alike(place int) (places []int) {
	for i := range m {
		if m[i].hash == m[place].hash {
			places = append(places, i)
		}
	}
	return places
}

// TestCorrectionsAgreeWithAModel: after random writes, corrections, and retractions on two
// replicas, lists, ranked searches and single memories say what the model says.
func TestCorrectionsAgreeWithAModel(t *testing.T) {
	l := newLife(t)
	for seed := range uint64(3) {
		chance := rand.New(rand.NewPCG(seed, 58))
		l.session = l.stack.Core[0].SignIn(stacktest.NewWallet())
		var m lifeModel
		for range 60 {
			switch n := len(m); {
			case n > 3 && chance.IntN(5) == 0:
				place := chance.IntN(n)
				l.core().Expect(200, "DELETE", "/memories/"+m[place].id, nil, l.session)
				m[place].retracted = true
			default:
				one := modelMemory{text: fmt.Sprintf("fact number %d", chance.IntN(6))}
				members := map[string]any{}
				var ids []string
				gone := false
				for range chance.IntN(3) {
					if n == 0 || chance.IntN(2) == 0 {
						continue
					}
					place := chance.IntN(n)
					if slices.Contains(ids, m[place].id) {
						continue
					}
					ids, gone = append(ids, m[place].id), gone || m[place].retracted
					for _, other := range m.alike(place) {
						if !slices.Contains(one.supersedes, other) {
							one.supersedes = append(one.supersedes, other)
						}
					}
				}
				if ids != nil {
					members["supersedes"] = ids
				}
				if gone {
					l.core().Expect(410, "POST", "/memories", map[string]any{"content": one.text, "supersedes": ids}, l.session)
					continue
				}
				one.id = l.write(one.text, members)
				one.hash = l.get(one.id).LeafHash
				m = append(m, one)
			}
		}
		var list, current []string
		for place, one := range m {
			if one.retracted {
				l.core().Expect(410, "GET", "/memories/"+one.id, nil, l.session)
				continue
			}
			list = append(list, one.text)
			var by []string
			for _, later := range m.supersededBy(place) {
				by = append(by, m[later].id)
			}
			if by == nil {
				current = append(current, one.text)
			}
			if got := l.get(one.id); !slices.Equal(got.SupersededBy, by) || len(got.Supersedes) != len(one.supersedes) {
				t.Fatalf("seed %d, memory %d: superseded by %v, want %v; supersedes %v, want %v", seed, place, got.SupersededBy, by, got.Supersedes, one.supersedes)
			}
		}
		l.want(fmt.Sprintf("seed %d, substring", seed), l.found(map[string]any{"query": "fact"}), list...)
		l.want(fmt.Sprintf("seed %d, ranked", seed), l.found(map[string]any{"query": "fact", "mode": "ranked", "order": "oldest", "limit": 1000}), current...)
	}
}

// TestRandomWalksOfALimitedKey: whatever a key that is limited to a namespace calls, no
// answer has a text, a name or an id from outside.
func TestRandomWalksOfALimitedKey(t *testing.T) {
	l := newLife(t)
	walks := 8
	if testing.Short() {
		walks = 2
	}
	for seed := range uint64(walks) {
		chance := rand.New(rand.NewPCG(seed, 59))
		l.session = l.stack.Core[0].SignIn(stacktest.NewWallet())
		key := stacktest.Bearer(l.core().Expect(201, "POST", "/keys", map[string]any{"label": "x", "namespaces": []string{"inside"}, "scopes": []string{"read", "write", "retract"}}, l.session).Text("key"))
		var inside, outside []string
		for range 30 {
			if chance.IntN(2) == 0 {
				inside = append(inside, l.write(fmt.Sprintf("tea at %d", chance.IntN(9)), map[string]any{"namespace": "inside"}))
				continue
			}
			members := map[string]any{"namespace": "elsewhere", "tags": []string{"secrettag"}, "source": "secretsource"}
			if len(inside) > 0 && chance.IntN(4) == 0 {
				members["supersedes"] = []string{inside[chance.IntN(len(inside))]}
			}
			outside = append(outside, l.write(fmt.Sprintf("secretword and tea at %d", chance.IntN(9)), members))
		}
		one := func() string {
			all := append(slices.Clone(inside), outside...)
			return all[chance.IntN(len(all))]
		}
		for range 60 {
			var method, path string
			var body any
			switch chance.IntN(6) {
			case 0:
				method, path = "GET", "/memories/"+one()+[]string{"", "/proof", "/receipt"}[chance.IntN(3)]
			case 1:
				method, path = "GET", fmt.Sprintf("/memories?limit=%d&order=%s", 1+chance.IntN(9), []string{"oldest", "newest"}[chance.IntN(2)])
			case 2, 3:
				method, path = "POST", "/memories/search"
				body = map[string]any{
					"query": []string{"", "tea", "secretword", "at 3"}[chance.IntN(4)], "mode": []string{"substring", "ranked"}[chance.IntN(2)],
					"order": []string{"oldest", "newest", "occurred"}[chance.IntN(3)], "limit": 1 + chance.IntN(40),
					"filter": []map[string]any{{}, {"superseded": true}, {"namespace": "elsewhere"}, {"tags": []string{"secrettag"}}, {"source": "secretsource"}}[chance.IntN(5)],
				}
			case 4:
				method, path, body = "POST", "/memories", map[string]any{"content": "tea", "supersedes": []string{one()}}
			case 5:
				method, path = "DELETE", "/memories/"+one()
			}
			a := l.core().Do(method, path, body, key)
			if a.Status >= http.StatusInternalServerError {
				t.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
			}
			for _, secret := range append([]string{"secretword", "secrettag", "secretsource", "elsewhere"}, outside...) {
				if strings.Contains(string(a.Body), secret) {
					t.Fatalf("seed %d: %s %s %v tells of %s: %s", seed, method, path, body, secret, a.Body)
				}
			}
			if a.Status == http.StatusCreated {
				inside = append(inside, a.Text("id"))
			}
		}
	}
}
