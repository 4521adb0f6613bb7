package e2e_test

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/services/run/config"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// model is an embeddings endpoint whose vectors count hashed words. Words that meanings
// maps to one word have one vector.
type model struct {
	*httptest.Server
	calls  atomic.Int64
	behave atomic.Pointer[http.HandlerFunc] // nil: answer normally
	mu     sync.Mutex
	asked  []string
}

// modelKey is the endpoint's credential.
const modelKey = "key-of-the-embeddings-endpoint"

var meanings = map[string]string{"breakfast": "oatmeal", "morning": "oatmeal", "doctor": "dentist", "pup": "dog"}

func meaningOf(text string) []float64 {
	v := make([]float64, 512)
	for word := range strings.FieldsSeq(text) {
		if same, ok := meanings[word]; ok {
			word = same
		}
		if len(word) < 4 && word != "dog" {
			continue
		}
		h := fnv.New32a()
		_, _ = h.Write([]byte(word))
		v[h.Sum32()%uint32(len(v))]++
	}
	return v
}

func startModel(t *testing.T) *model {
	m := &model{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.calls.Add(1)
		if behave := m.behave.Load(); behave != nil {
			(*behave)(w, r)
			return
		}
		var body struct {
			Model string
			Input []string
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Model != "test" || r.Header.Get("Authorization") != "Bearer "+modelKey || len(body.Input) > 64 {
			http.Error(w, "what?", http.StatusNotFound)
			return
		}
		type entry struct {
			Index     int       `json:"index"`
			Embedding []float64 `json:"embedding"`
		}
		var data []entry
		for i, text := range body.Input {
			if strings.Contains(text, "poison") {
				http.Error(w, "refused", http.StatusBadRequest)
				return
			}
			data = append(data, entry{i, meaningOf(text)})
		}
		m.mu.Lock()
		m.asked = append(m.asked, body.Input...)
		m.mu.Unlock()
		_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *model) does(behave http.HandlerFunc) { m.behave.Store(&behave) }

// embedded is how many texts the endpoint received.
func (m *model) embedded() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.asked)
}

func withModel(t *testing.T, m *model, o stacktest.Options) *stacktest.Stack {
	o.Configure = func(c *config.Config) {
		c.EmbeddingsURL, c.EmbeddingsModel, c.EmbeddingsKey, c.KeyMaxAge = m.URL, "test", modelKey, time.Millisecond
	}
	return stacktest.Start(t, o)
}

func searchRanked(t *testing.T, core *stacktest.Client, session stacktest.Header, body map[string]any) ([]scored, string, string) {
	t.Helper()
	body["mode"] = "ranked"
	answer := core.Expect(200, "POST", "/memories/search", body, session)
	return decode[[]scored](t, answer.Body), answer.Header.Get("Recall"), answer.Header.Get("Next-Cursor")
}

// TestSearchByMeaning: with an endpoint, each replica finds memories by meaning, each
// text is embedded once, and memories that the query excludes stay out.
func TestSearchByMeaning(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	s := withModel(t, m, stacktest.Options{Core: 2})
	session := s.Core[0].SignIn(stacktest.NewWallet())
	texts := []string{"Oatmeal in the morning", "The dentist is on Tuesday", "poison", "A dog called Rex", "oatmeal cookies"}
	for n, text := range texts {
		s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": text, "metadata": map[string]any{"source": fmt.Sprint("s", n%2)}}, session)
	}
	for n, test := range []struct {
		body map[string]any
		want []uint64
	}{
		{map[string]any{"query": "breakfast"}, []uint64{0, 4}},
		{map[string]any{"query": "breakfast -cookies"}, []uint64{0}},
		{map[string]any{"query": `breakfast "oatmeal cookies"`}, []uint64{4}},
		{map[string]any{"query": "breakfast", "filter": map[string]any{"source": "s1"}}, nil},
		{map[string]any{"query": "breakfast", "order": "newest"}, []uint64{4, 0}},
		{map[string]any{"query": "DOCTOR"}, []uint64{1}},
		{map[string]any{"query": "nothing like it"}, nil},
	} {
		found, by, _ := searchRanked(t, s.Core[n%2], session, test.body)
		if got := indexes(found); !slices.Equal(got, test.want) || by != "words, vectors" {
			t.Errorf("%v finds %v by %s, want %v", test.body, got, by, test.want)
		}
	}
	m.mu.Lock()
	for _, text := range texts {
		if n := len(slices.DeleteFunc(slices.Clone(m.asked), func(a string) bool { return a != strings.ToLower(text) })); n > 1 {
			t.Errorf("%q was embedded %d times", text, n)
		}
	}
	m.mu.Unlock()
	if _, by, _ := searchRanked(t, s.Core[0], session, map[string]any{"query": ""}); by != "words" {
		t.Errorf("an empty query goes by %q", by)
	}
}

// TestRetractedTextsStay: the text of a retracted memory is not sent to the endpoint, and
// its vector finds nothing.
func TestRetractedTextsStay(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	s := withModel(t, m, stacktest.Options{})
	core := s.Core[0]
	session := core.SignIn(stacktest.NewWallet())
	retract := func(answer stacktest.Answer) {
		core.Expect(200, "DELETE", "/memories/"+answer.Text("id"), nil, session)
	}
	first := core.Expect(201, "POST", "/memories", map[string]any{"content": "Morning walk"}, session)
	searchRanked(t, core, session, map[string]any{"query": "breakfast"})
	retract(first)
	retract(core.Expect(201, "POST", "/memories", map[string]any{"content": "Morning secret"}, session))
	core.Expect(201, "POST", "/memories", map[string]any{"content": "Morning swim"}, session)
	if found, by, _ := searchRanked(t, core, session, map[string]any{"query": "breakfast"}); !slices.Equal(indexes(found), []uint64{2}) || by != "words, vectors" {
		t.Errorf("finds %v by %q", indexes(found), by)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.asked, "morning secret") {
		t.Error("a retracted text was sent")
	}
}

// TestPagesByMeaning: pages repeat and skip nothing while the log grows. A page that
// can't be made in the same way as the first one is refused.
func TestPagesByMeaning(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	s := withModel(t, m, stacktest.Options{Core: 2})
	session := s.Core[0].SignIn(stacktest.NewWallet())
	write := func(n int) {
		text := fmt.Sprintf("oatmeal number %d", n)
		if n%10 != 0 {
			text = fmt.Sprintf("morning number %d", n)
		}
		s.Core[n%2].Expect(201, "POST", "/memories", map[string]any{"content": text}, session)
	}
	const all = 300
	for n := range all {
		write(n)
	}
	seen, cursor := map[uint64]bool{}, ""
	for page := 0; page == 0 || cursor != ""; page++ {
		found, by, next := searchRanked(t, s.Core[page%2], session, map[string]any{"query": "oatmeal", "limit": 37, "cursor": cursor})
		if by != "words, vectors" {
			t.Errorf("page %d goes by %q", page, by)
		}
		for _, f := range found {
			if seen[f.LeafIndex] || f.LeafIndex >= all {
				t.Errorf("leaf %d comes twice or late", f.LeafIndex)
			}
			seen[f.LeafIndex] = true
		}
		cursor = next
		write(all + page)
	}
	if len(seen) < 100 || len(seen) > all {
		t.Errorf("%d memories are found", len(seen))
	}
	_, _, next := searchRanked(t, s.Core[0], session, map[string]any{"query": "breakfast", "limit": 1})
	m.does(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "away", http.StatusBadGateway) })
	searchRanked(t, s.Core[0], session, map[string]any{"query": "breakfast", "limit": 1, "cursor": next})
	s.Core[1].Expect(503, "POST", "/memories/search", map[string]any{"mode": "ranked", "query": "breakfast", "limit": 1, "cursor": next}, session)
}

// TestBadEndpoints: a dead, slow or wrong endpoint costs the vectors and little time, and
// soon gets no more requests.
func TestBadEndpoints(t *testing.T) {
	t.Parallel()
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	for name, behave := range map[string]http.HandlerFunc{
		"slow": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // otherwise the server misses that the client disconnects
			select {
			case <-time.After(2 * time.Minute):
			case <-r.Context().Done():
			}
		},
		"failing": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
		"elsewhere": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.invalid/", http.StatusTemporaryRedirect)
		},
		"no JSON":   answer("<html>"),
		"too few":   answer(`{"data":[]}`),
		"empty":     answer(`{"data":[{"index":0,"embedding":[]}]}`),
		"misplaced": answer(`{"data":[{"index":7,"embedding":[1]}]}`),
		"huge":      answer(`{"data":[{"index":0,"embedding":[` + strings.Repeat("1,", 9<<20) + `1]}]}`),
		"too long":  answer(`{"data":[{"index":0,"embedding":[` + strings.Repeat("1,", 9000) + `1]}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := startModel(t)
			m.does(behave)
			s := withModel(t, m, stacktest.Options{})
			session := s.Core[0].SignIn(stacktest.NewWallet())
			s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": "Oatmeal in the morning"}, session)
			for n := range 8 {
				began := time.Now()
				found, by, _ := searchRanked(t, s.Core[0], session, map[string]any{"query": "mornings"})
				if len(found) != 1 || by != "words" {
					t.Errorf("finds %v by %q", indexes(found), by)
				}
				if took := time.Since(began); took > 5*time.Second || n > 3 && took > 2*time.Second {
					t.Errorf("search %d took %s", n, took)
				}
			}
			if n := m.calls.Load(); n != 3 {
				t.Errorf("the endpoint was asked %d times", n)
			}
		})
	}
	t.Run("gone", func(t *testing.T) {
		t.Parallel()
		m := startModel(t)
		m.Close()
		s := withModel(t, m, stacktest.Options{})
		session := s.Core[0].SignIn(stacktest.NewWallet())
		s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": "Oatmeal"}, session)
		if found, by, _ := searchRanked(t, s.Core[0], session, map[string]any{"query": "oatmeal"}); len(found) != 1 || by != "words" {
			t.Errorf("finds %v by %q", indexes(found), by)
		}
	})
	// A batch with vectors of different dimensions is wrong, even if the query's vector
	// is right.
	t.Run("uneven", func(t *testing.T) {
		t.Parallel()
		m := startModel(t)
		m.does(func(w http.ResponseWriter, r *http.Request) {
			var body struct{ Input []string }
			_ = json.NewDecoder(r.Body).Decode(&body)
			var data []map[string]any
			for i := range body.Input {
				data = append(data, map[string]any{"index": i, "embedding": slices.Repeat([]float64{1}, i+3)})
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
		})
		s := withModel(t, m, stacktest.Options{})
		session := s.Core[0].SignIn(stacktest.NewWallet())
		for range 3 {
			s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": "Oatmeal"}, session)
		}
		if found, by, _ := searchRanked(t, s.Core[0], session, map[string]any{"query": "oatmeal"}); len(found) != 3 || by != "words" {
			t.Errorf("finds %v by %q", indexes(found), by)
		}
	})
}

// TestAnEndpointThatRefusedEverything for a while, as with a model that is not loaded:
// memories that were written meanwhile are found once it works again.
func TestAnEndpointThatRefusedEverything(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	s := withModel(t, m, stacktest.Options{})
	session := s.Core[0].SignIn(stacktest.NewWallet())
	write := func() {
		s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": "Oatmeal in the morning"}, session)
	}
	finds := func(want []uint64, how string) {
		t.Helper()
		found, by, _ := searchRanked(t, s.Core[0], session, map[string]any{"query": "breakfast"})
		if got := indexes(found); !slices.Equal(got, want) || by != how {
			t.Errorf("finds %v by %s, want %v by %s", got, by, want, how)
		}
	}
	write()
	finds([]uint64{0}, "words, vectors")
	m.does(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such model", http.StatusBadRequest) })
	write()
	finds(nil, "words")
	m.behave.Store(nil)
	finds([]uint64{1, 0}, "words, vectors")
}

// TestForgottenVectors: the vectors are lost with the data key, and no text is sent.
func TestForgottenVectors(t *testing.T) {
	t.Parallel()
	m := startModel(t)
	s := withModel(t, m, stacktest.Options{})
	wallet := stacktest.NewWallet()
	session := s.Core[0].SignIn(wallet)
	s.Core[0].Expect(201, "POST", "/memories", map[string]any{"content": "Oatmeal in the morning"}, session)
	if found, by, _ := searchRanked(t, s.Core[0], session, map[string]any{"query": "breakfast"}); len(found) != 1 || by != "words, vectors" {
		t.Fatalf("finds %v by %q", indexes(found), by)
	}
	forget(t, s, wallet)
	session = s.Core[0].SignIn(wallet) // the previous session ended with the key
	before := m.embedded()
	s.Core[0].Expect(410, "POST", "/memories/search", map[string]any{"mode": "ranked", "query": "breakfast again"}, session)
	if m.embedded() != before {
		t.Error("the endpoint was asked for a forgotten owner")
	}
}
