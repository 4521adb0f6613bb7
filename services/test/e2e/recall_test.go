package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// scored is a memory in a ranked answer.
type scored struct {
	view
	Score   *float64 `json:"score"`
	Passage *passage `json:"passage"`
}

type passage struct {
	Text   string `json:"text"`
	Offset int    `json:"offset"`
}

func indexes(found []scored) (leaves []uint64) {
	for _, f := range found {
		leaves = append(leaves, f.LeafIndex)
	}
	return leaves
}

// TestRankedSearch: questions in words find the memories that answer them, best first. A
// memory is found as soon as its write is acknowledged, on any replica.
func TestRankedSearch(t *testing.T) {
	s := shared(t)
	wallet := stacktest.NewWallet()
	session := s.Core[0].SignIn(wallet)
	search := func(n int, body map[string]any) []scored {
		t.Helper()
		return decode[[]scored](t, s.Core[n%2].Expect(200, "POST", "/memories/search", body, session).Body)
	}
	for n, text := range []string{
		"Oatmeal in the morning keeps me full until noon", "Swam two miles in the lake with the children",
		"The café at the station has the best croissants", "oatmeal cookies for the party",
	} {
		s.Core[n%2].Expect(201, "POST", "/memories", map[string]any{"content": text, "metadata": map[string]any{"n": n}}, session)
		found := search(n+1, map[string]any{"mode": "ranked", "query": strings.Fields(text)[0]})
		if len(found) == 0 || !slices.Contains(indexes(found), uint64(n)) {
			t.Errorf("what was just written is not found: %v", indexes(found))
		}
	}
	for query, want := range map[string][]uint64{
		"what did I eat in the mornings": {0}, "child swimming": {1}, "cafe croissant": {2}, `"oatmeal cookie"`: {3},
		"oatmeal -party": {0}, "croiss*": {2}, "nothing like it": nil, "": {3, 2, 1, 0},
	} {
		found := search(0, map[string]any{"mode": "ranked", "query": query})
		if !slices.Equal(indexes(found), want) {
			t.Errorf("%q finds %v, want %v", query, indexes(found), want)
		}
		for i, f := range found {
			if f.Score == nil || i > 0 && *f.Score > *found[i-1].Score {
				t.Errorf("%q: scores do not fall", query)
			}
		}
	}
	if plain := search(0, map[string]any{"query": "oatmeal"}); len(plain) != 2 || plain[0].Score != nil {
		t.Errorf("substring search has changed: %v", plain)
	}
	body := map[string]any{"mode": "ranked", "query": "oatmeal", "limit": 1}
	a := s.Extension[0].Expect(200, "POST", "/memories/search", body, s.Extension[0].SignIn(wallet))
	if found := decode[struct{ Memories []scored }](t, a.Body).Memories; !slices.Equal(indexes(found), indexes(search(0, body))) || a.Header.Get("Next-Cursor") == "" {
		t.Errorf("the extension API finds %s", a.Body)
	}

	// A long text comes with the passage that answers, on both APIs.
	before, answer := strings.Repeat("Wir gingen über die Brücke. ", 60), "Adas Fahrrad steht im Keller."
	content := before + answer + strings.Repeat(" Es regnete.", 60)
	s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": content}, session)
	body["query"] = "Wo steht das Fahrrad?"
	a = s.Extension[0].Expect(200, "POST", "/memories/search", body, s.Extension[0].SignIn(wallet))
	for _, found := range [][]scored{search(0, body), decode[struct{ Memories []scored }](t, a.Body).Memories} {
		if at := utf8.RuneCountInString(before); found[0].Passage == nil || *found[0].Passage != (passage{string([]rune(content)[at : at+300]), at}) {
			t.Errorf("the passage is %+v", found[0].Passage)
		}
	}
	if found := search(0, map[string]any{"mode": "ranked", "query": "oatmeal"}); found[0].Passage != nil {
		t.Errorf("a short text has the passage %+v", found[0].Passage)
	}
}

// TestBadSelections: each bad selection gets an error that says what is wrong.
func TestBadSelections(t *testing.T) {
	s := shared(t)
	session := s.Core[0].SignIn(stacktest.NewWallet())
	s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": "x"}, session)
	for _, body := range []string{
		`{"mode":"semantic"}`, `{"mode":null}`, `{"order":"random"}`, `{"order":"relevance"}`, `{"limit":0}`, `{"limit":1001}`, `{"limit":1.5}`,
		`{"limit":"7"}`, `{"cursor":"x","limit":5}`, `{"cursor":"n5"}`, `{"cursor":"o-1"}`, `{"mode":"ranked","cursor":"r1.1.zz"}`,
		`{"mode":"ranked","cursor":"o5"}`, `{"filter":null}`, `{"filter":[]}`, `{"filter":{"from":"yesterday"}}`, `{"filter":{"to":"2026-01-32"}}`,
		`{"filter":{"anchored":"yes"}}`, `{"filter":{"metadata":[1]}}`, `{"filter":{"metadata":{"a":1e999}}}`, `{"filter":{"source":7}}`,
	} {
		answer := s.Core[0].Do("POST", "/memories/search", []byte(body), session, stacktest.With("Content-Type", "application/json"))
		if answer.Status != http.StatusBadRequest || answer.Text("error") == "" {
			t.Errorf("%s gets %d %s", body, answer.Status, answer.Body)
		}
	}
	for _, query := range []string{"order=random", "order=newest&limit=0", "order=newest&cursor=5", "order=newest&order=newest", "order=oldest&cursor=n5"} {
		if answer := s.Core[0].Do("GET", "/memories?"+query, nil, session); answer.Status != http.StatusBadRequest {
			t.Errorf("%s gets %d", query, answer.Status)
		}
		s.Core[0].Expect(401, "GET", "/memories?"+query, nil) // the credential comes first
	}
}
