package recall

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/search"
)

// library has texts in memory.
type library struct {
	texts []string
	read  int           // leaves whose texts were read
	apart time.Duration // time between two texts; 0: a day
}

func (s *library) Texts(_ context.Context, r search.Range, yield func(uint64, []byte) error) (uint64, error) {
	for i := r.From; i < r.To; i++ {
		s.read++
		if err := yield(i, []byte(s.texts[i])); err != nil {
			return 0, err
		}
	}
	return r.To, nil
}

func (s *library) Times(_ context.Context, r search.Range) ([]time.Time, error) {
	apart := s.apart
	if apart == 0 {
		apart = 24 * time.Hour
	}
	times := make([]time.Time, r.To-r.From)
	for i := range times {
		times[i] = time.Unix(1_700_000_000, 0).Add(time.Duration(r.From+uint64(i)) * apart)
	}
	return times, nil
}

const owner events.Owner = "9qVEsM5xVLiHf8FdiLeisn9Wfy5iYau3pQgTVxxXDPQu"

func ranked(t testing.TB, e *Engine, size int, query string) []Hit {
	t.Helper()
	r := e.Rank(search.Range{Owner: owner, To: uint64(size)}, ParseQuery(query))
	for !r.Done() {
		if err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	hits := r.Hits()
	slices.SortFunc(hits, func(a, b Hit) int {
		switch {
		case a.Score > b.Score:
			return -1
		case a.Score < b.Score:
			return 1
		}
		return int(b.Leaf) - int(a.Leaf)
	})
	return hits
}

func leavesOf(hits []Hit) (leaves []uint64) {
	for _, h := range hits {
		leaves = append(leaves, h.Leaf)
	}
	return leaves
}

// TestQueries checks what each kind of query finds, and in which order.
func TestQueries(t *testing.T) {
	t.Parallel()
	texts := []string{
		0:  "I had oatmeal with blueberries this morning",
		1:  "The oatmeal cookies from the bakery were stale, the cookies of my aunt are not",
		2:  "We went swimming in the lake with the children",
		3:  "Mañana voy a la montaña con mi hermana",
		4:  "Le café de la gare était fermé, nous avons bu du thé à l'hôtel",
		5:  "Ich habe die Schlüssel in der Küche vergessen",
		6:  "明天我想去北京看朋友",
		7:  "東京でラーメンを食べました",
		8:  "Мы читали книги в библиотеке",
		9:  "Cookies",
		10: "ไปกินข้าวที่ตลาด",
		11: "The flight is LH-442 on 2026-03-01; e-mail me at a.b@example.org",
	}
	for query, want := range map[string][]uint64{
		"oatmeal":                     {0, 1},
		"OATMEAL":                     {0, 1},
		"cookie":                      {1, 9},
		`"oatmeal cookie"`:            {1},
		`"cookies oatmeal"`:           nil,
		"oatmeal -cookies":            {0},
		`oatmeal -"oatmeal cookies"`:  {0},
		"-cookies -the":               {0, 3, 5, 6, 7, 8, 10}, // thé without its accent is the
		"blueb*":                      {0},
		"blueb":                       nil,
		"swim":                        {2},
		"did the child go swimming?":  {2},
		"who went to a lake":          {2},
		"manana":                      {3},
		"montañas":                    {3},
		"cafes":                       {4},
		"hotel":                       {4},
		"Schluessel":                  nil,
		"schlussel":                   {5},
		"北京":                          {6},
		"京":                           {6, 7},
		"ラーメン":                        {7},
		"книга":                       {8},
		"ตลาด":                        {10},
		"442":                         {11},
		"example.org":                 {11},
		"???":                         nil,
		`"`:                           nil,
		"*":                           nil,
		"-":                           nil,
		"\x00\x01\xff":                nil,
		"a.* (b|c) [d]{2} ^$":         nil, // a.b in the text is one word
		strings.Repeat("oatmeal ", 9): {0, 1},
	} {
		e := New(&library{texts: texts}, nil)
		got := leavesOf(ranked(t, e, len(texts), query))
		if query == "-cookies -the" || query == "京" {
			slices.Sort(got)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q finds %v, want %v", query, got, want)
		}
	}
}

// TestNothingAskedIsAll: an empty query matches all memories, newest first.
func TestNothingAskedIsAll(t *testing.T) {
	t.Parallel()
	e := New(&library{texts: []string{"one", "two", "three"}}, nil)
	for _, query := range []string{"", " \n"} {
		if got := leavesOf(ranked(t, e, 3, query)); !slices.Equal(got, []uint64{2, 1, 0}) {
			t.Errorf("%q finds %v", query, got)
		}
	}
}

// TestBesideAndRecency: of equal texts, those beside a match and newer ones come first,
// and gain no more than the documented parts.
func TestBesideAndRecency(t *testing.T) {
	t.Parallel()
	texts := make([]string, 40)
	for i := range texts {
		texts[i] = fmt.Sprint("filler ", i)
	}
	texts[5], texts[20], texts[21], texts[39] = "violin", "violin", "the lesson with a violin", "violin"
	beside := ranked(t, New(&library{texts: texts, apart: time.Minute}, nil), len(texts), "violin lesson")
	if got := leavesOf(beside); !slices.Equal(got, []uint64{21, 20, 39, 5}) {
		t.Errorf("within minutes: %v", beside)
	}
	apart := ranked(t, New(&library{texts: texts}, nil), len(texts), "violin")
	apart = slices.DeleteFunc(apart, func(h Hit) bool { return h.Leaf == 21 }) // a longer text
	if got := leavesOf(apart); !slices.Equal(got, []uint64{39, 20, 5}) {
		t.Errorf("a day apart: %v", apart)
	}
	if apart[0].Score > 1.1*apart[2].Score {
		t.Errorf("recency is worth more than a tenth: %v", apart)
	}
}

// TestKeptBlocksFollowTheLog: a growing log with kept blocks is ranked as a log without
// any, and kept leaves are not read again.
func TestKeptBlocksFollowTheLog(t *testing.T) {
	t.Parallel()
	var texts []string
	for i := range 9000 {
		texts = append(texts, fmt.Sprintf("memory number %d of the %d shelf", i, i%97))
	}
	s := &library{texts: texts, apart: time.Second}
	kept := NewBlocks(1 << 30)
	e := New(s, kept)
	for size := 1; size <= len(texts); size += 1 + size/7 {
		got := ranked(t, e, size, "42 shelf")
		want := ranked(t, New(&library{texts: texts, apart: time.Second}, nil), size, "42 shelf")
		if !slices.Equal(got, want) {
			t.Fatalf("at %d leaves what is kept gives %d hits, and not the %d of all anew", size, len(got), len(want))
		}
		s.read = 0
		if ranked(t, e, size, "7"); s.read != 0 {
			t.Fatalf("at %d leaves %d were read again", size, s.read)
		}
	}
	// When the log grows by one leaf, only the last page is read again.
	for size := len(texts) - 300; size <= len(texts); size++ {
		s.read = 0
		if ranked(t, e, size, "7"); s.read > 4096 {
			t.Fatalf("one more leaf has %d read", s.read)
		}
	}
	// An older size is ranked as before, from blocks that reach further.
	if got, want := ranked(t, e, 4000, "42"), ranked(t, New(s, nil), 4000, "42"); !slices.Equal(got, want) {
		t.Errorf("of an older log: %v, want %v", got, want)
	}
}

// TestBudgetOfBlocks: the cache stays within its budget. A block is not kept if its owner
// was dropped while it was made.
func TestBudgetOfBlocks(t *testing.T) {
	t.Parallel()
	var texts []string
	for i := range 2000 {
		texts = append(texts, fmt.Sprintf("words w%d x%d y%d", i, i*7, i*13))
	}
	whole := NewBlocks(1 << 30)
	ranked(t, New(&library{texts: texts}, whole), len(texts), "w7")
	need := whole.Bytes()
	if need == 0 {
		t.Fatal("nothing is kept")
	}
	small := NewBlocks(need / 2)
	e := New(&library{texts: texts}, small)
	if got := leavesOf(ranked(t, e, len(texts), "w7")); !slices.Equal(got, []uint64{7}) {
		t.Errorf("beyond the budget %v is found", got)
	}
	if small.Bytes() > need/2 {
		t.Errorf("%d bytes are kept of %d", small.Bytes(), need/2)
	}
	r := New(&library{texts: texts}, whole).Rank(search.Range{Owner: owner, To: 256}, ParseQuery("w7"))
	whole.Drop(owner)
	if whole.Bytes() != 0 {
		t.Errorf("%d bytes are left of an owner who was dropped", whole.Bytes())
	}
	for !r.Done() {
		if err := r.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if whole.Bytes() != 0 {
		t.Error("an index that was begun before its owner was dropped is kept")
	}
}

// FuzzParseQuery: no query panics, and each is bounded.
func FuzzParseQuery(f *testing.F) {
	for _, seed := range []string{`a "b c" -d e*`, `""-"-*`, "“„«»", "京都-大*", "\xff\xfe-\"", "---", "-\u3000"} {
		f.Add(seed)
	}
	texts := []string{"a b c d", "京都大学", "", "e-mail", "été"}
	f.Fuzz(func(t *testing.T, query string) {
		q := ParseQuery(query)
		if len(q.any) > maxConcepts || len(q.must) > maxPhrases || len(q.not) > maxPhrases {
			t.Errorf("%d concepts, %d phrases, %d barred", len(q.any), len(q.must), len(q.not))
		}
		ranked(t, New(&library{texts: texts}, nil), len(texts), query)
	})
}

// FuzzTerms: each word has a term in each language. Counting the empty term took all memory.
func FuzzTerms(f *testing.F) {
	for _, seed := range []string{"قال في البيت ـ\u0610", "l'" + strings.Repeat("\u0301", maxWordBytes/2) + "a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := newBuilder(0, &dictionary{})
		d.add([]byte(text), 0)
		for _, w := range d.words {
			for l := range languages {
				if term, _ := terms(w.text, language(l)); term == "" {
					t.Errorf("%q has no term in language %q", w.text, languages[l].code)
				}
			}
		}
	})
}
