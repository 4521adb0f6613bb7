package recall

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// library is the index of texts, by as many leaves as one Words has.
type library struct{ words []*Words }

const leavesOfWords = 256

// newLibrary indexes texts that were written some time apart.
func newLibrary(apart time.Duration, texts ...string) *library {
	var l library
	var d Dictionary
	for first := 0; first < len(texts); first += leavesOfWords {
		run := texts[first:min(len(texts), first+leavesOfWords)]
		created := make([]uint32, len(run))
		for i := range created {
			created[i] = uint32(time.Unix(1_700_000_000, 0).Add(time.Duration(first+i) * apart).Unix())
		}
		l.words = append(l.words, d.Index(uint64(first), func(yield func([]byte) bool) {
			for _, text := range run {
				if !yield([]byte(text)) {
					return
				}
			}
		}, created))
	}
	return &l
}

const day = 24 * time.Hour

// ranked returns the hits among the first leaves, best first.
func (l *library) ranked(size int, query string) []Hit {
	r := ParseQuery(query).Rank()
	for _, w := range l.words {
		r.Add(w)
	}
	hits := r.Hits(uint64(size), func(uint64) bool { return true })
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Leaf, a.Leaf))
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
		7:  "東京でラーメンを食べました。\u1107\u116e\u1109\u1161\u11ab에서", // decomposed, as macOS writes names of files
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
		"oatmeal -morning -bakery":    {9}, // an excluded memory hides no related word
		`oatmeal -"oatmeal cookies"`:  {0},
		"-cookies -the":               {9}, // nothing is excluded before a word
		"cookies -the -x -5 of--my":   {9},
		"cookies\n-stale\n-aunt":      {1, 9}, // a pasted list
		"blueb*":                      {0},
		"blueb":                       nil,
		"swim":                        {2},
		"did the child go swimming?":  {2},
		"who went to a lake":          {2},
		"manana":                      {3},
		"montañas":                    {3},
		"cafes":                       {4},
		"Schluessel":                  nil,
		"schlussel":                   {5},
		"北京":                          {6},
		"京":                           {6, 7},
		"ラーメン":                        {7},
		"부산":                          {7},
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
		got := leavesOf(newLibrary(day, texts...).ranked(len(texts), query))
		if query == "京" {
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
	l := newLibrary(day, "one", "two", "three")
	for _, query := range []string{"", " \n"} {
		if got := leavesOf(l.ranked(3, query)); !slices.Equal(got, []uint64{2, 1, 0}) {
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
	beside := newLibrary(time.Minute, texts...).ranked(len(texts), "violin lesson")
	if got := leavesOf(beside); !slices.Equal(got, []uint64{21, 20, 39, 5}) {
		t.Errorf("within minutes: %v", beside)
	}
	apart := newLibrary(day, texts...).ranked(len(texts), "violin")
	apart = slices.DeleteFunc(apart, func(h Hit) bool { return h.Leaf == 21 }) // a longer text
	if got := leavesOf(apart); !slices.Equal(got, []uint64{39, 20, 5}) {
		t.Errorf("a day apart: %v", apart)
	}
	if apart[0].Score > 1.1*apart[2].Score {
		t.Errorf("recency is worth more than a tenth: %v", apart)
	}
}

// TestNewerFirst: of memories that say nearly the same, the newer stands first, but not
// before one that answers better.
func TestNewerFirst(t *testing.T) {
	t.Parallel()
	texts := []string{
		"Ada lives in Oslo", "Ada lives in Oslo now", "Ada is living in Oslo, Norway", "Ada now lives in Porto", "Bob lives in Porto now", "The sea is cold",
	}
	var all []Candidate
	for _, h := range newLibrary(time.Minute, texts...).ranked(len(texts), "Where does Ada live?") {
		all = append(all, Candidate{h, []byte(texts[h.Leaf]), uint32(h.Leaf)})
	}
	NewerFirst(all)
	slices.SortFunc(all, func(a, b Candidate) int { return cmp.Compare(b.Score, a.Score) })
	if len(all) < 5 || all[0].Leaf != 3 || all[len(all)-1].Leaf != 4 {
		t.Errorf("found %v", all)
	}
}

// TestAnOlderSizeRanksAsBefore: leaves that were written since the first page of an answer
// change nothing in the order of its later pages.
func TestAnOlderSizeRanksAsBefore(t *testing.T) {
	t.Parallel()
	var texts []string
	for i := range 1500 {
		texts = append(texts, fmt.Sprintf("memory number %d of the %d shelf", i, i%97))
	}
	whole := newLibrary(time.Second, texts...)
	for _, size := range []int{1, 255, 256, 257, 1000, 1500} {
		if got, want := whole.ranked(size, "42 shelf"), newLibrary(time.Second, texts[:size]...).ranked(size, "42 shelf"); !slices.Equal(got, want) {
			t.Errorf("of %d leaves: %d hits, want %d, or in another order", size, len(got), len(want))
		}
	}
}

// TestBestAreTheBestHits compares Best with all hits, sorted.
func TestBestAreTheBestHits(t *testing.T) {
	t.Parallel()
	words := strings.Fields("cat animal dog boss manager Oslo birthday 5 tea the of sleeps roof rain it")
	random := rand.New(rand.NewPCG(1, 2))
	some := func() string {
		text := make([]string, 1+random.IntN(6))
		for i := range text {
			text[i] = words[random.IntN(len(words))]
		}
		return strings.Join(text, " ")
	}
	texts := make([]string, 700)
	for i := range texts {
		texts[i] = some()
	}
	for _, apart := range []time.Duration{0, time.Second, time.Hour, -day} {
		l := newLibrary(apart, texts...)
		for i := range 50 {
			query, n, size := some(), 1+random.IntN(60), uint64(random.IntN(len(texts)))
			if i == 0 {
				query = "" // all
			}
			ranking := ParseQuery(query).Rank()
			for _, w := range l.words {
				ranking.Add(w)
			}
			visible := func(leaf uint64) bool { return leaf%7 != 3 }
			passes := func(leaf uint64) bool { return leaf%5 != 1 }
			want := slices.DeleteFunc(ranking.Hits(size, visible), func(h Hit) bool { return !passes(h.Leaf) })
			slices.SortFunc(want, func(a, b Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Leaf, a.Leaf)) })
			matched := len(want)
			want = want[:min(n, len(want))]
			slices.SortFunc(want, func(a, b Hit) int { return cmp.Compare(a.Leaf, b.Leaf) })
			if got, all := ranking.Best(n, size, visible, passes); all != matched || !slices.Equal(got, want) {
				t.Fatalf("%q, the best %d of %d, %v apart: %v, not %v", query, n, size, apart, got, want)
			}
		}
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
		newLibrary(day, texts...).ranked(len(texts), query)
	})
}

// FuzzTerms: each word has a term in each language. Counting the empty term took all memory.
func FuzzTerms(f *testing.F) {
	for _, seed := range []string{"قال في البيت ـ\u0610", "l'" + strings.Repeat("\u0301", maxWordBytes/2) + "a"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := newBuilder(0, &Dictionary{})
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

// TestPassage: the sentence that answers is found wherever it stands, in each language.
func TestPassage(t *testing.T) {
	t.Parallel()
	filler := strings.Repeat("We walked along the river and talked about the weather. ", 30)
	for query, c := range map[string]struct{ text, want string }{
		"when does the lease end":         {filler + "The lease ends in March. " + filler, "The lease ends in March."},
		"allergic nuts":                   {filler + "Tom is allergic to nuts", "Tom is allergic to nuts"},
		"port of the server":              {"# Setup\nInstall it.\n- the server listens on port 8080\n- restart it", "- the server listens on port 8080"},
		"Wo wohnt Helga":                  {"Das Wetter war schön. Helga wohnt in Bonn. Wir gingen nach Hause.", "Helga wohnt in Bonn."},
		"猫の名前":                            {"今日は晴れです。猫の名前はタマです。明日は雨です。", "猫の名前はタマです。"},
		`"lease ends" -cats`:              {filler + "The lease ends in March. We like cats.", "The lease ends in March."},
		"nothing of it":                   {"One. Two. Three.", "One."},
		"":                                {"One. Two. Three.", "One."},
		"version 1.5 of the protocol":     {"It costs 3.20 euros. Use version 1.5 of it. Bye.", "Use version 1.5 of it."},
		"the same in two sentences: bees": {"Bees fly. Bees sting.", "Bees fly."},
		"a text without an end":           {"a text without an end", "a text without an end"},
		"spaces":                          {"   \n\n  \n", ""},
		"end of leases":                   {strings.Repeat("It rained. ", 2000) + "The lease ends in March.", "The lease ends in March."},
	} {
		got := c.text[PassagesFor(query).In(c.text):]
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%q: %.60q, want %q", query, got, c.want)
		}
	}
	walked := strings.Repeat("walked ", 100)
	long := walked + "the lease ends in March " + walked
	if got := long[PassagesFor("lease").In(long):]; !strings.Contains(got[:PassageLength], "the lease ends in March") {
		t.Errorf("of a long sentence: %.300q", got)
	}
}

// TestRelatedWords: a question finds a memory in other words. The word itself is better
// than its relatives wherever it is, and what is no question in English has no relatives.
func TestRelatedWords(t *testing.T) {
	t.Parallel()
	texts := []string{
		0: "The manager is Helena", 1: "My father bought a boat, and later, when the weather was good, sailed it to the island with two friends of his", 2: "A dad told it",
		3: "They keep a beagle", 4: "Mi jefe se llama Carlos", 5: "Der Chef heißt Jörg", 6: "Peter is late", 7: "Paul is early", 8: "The car is red",
	}
	index := newLibrary(day, texts...)
	for query, want := range map[string][]uint64{
		"Who is her boss?": {0}, "Do they have any pets?": {3}, "what did my father do?": {1, 2}, "where is my dad?": {2, 1},
		"what car is it?": {8}, // "car" is a function word, but of French
	} {
		if got := leavesOf(index.ranked(len(texts), query)); !slices.Equal(got[:min(len(got), len(want))], want) {
			t.Errorf("%q finds %v, want %v", query, got, want)
		}
	}
	for query, want := range map[string][]uint64{
		"father": {1}, "jefe": {4}, "Wie heißt der Chef?": {5}, "where is Peter?": {6}, "manager -Helena": nil,
	} {
		if got := leavesOf(index.ranked(len(texts), query)); !slices.Equal(got, want) {
			t.Errorf("%q finds %v, and only %v is right", query, got, want)
		}
	}
}

// TestTableOfRelatedWords: the table is the one that was made, and has all words that are
// said to answer others.
func TestTableOfRelatedWords(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("related_en.sha256")
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256([]byte(vectorsEnglish)); hex.EncodeToString(sum[:]) != strings.TrimSpace(string(want)) {
		t.Errorf("related_en.bin has the hash %x", sum)
	}
	for line := range strings.Lines(answersEnglish) {
		for word := range strings.FieldsSeq(strings.ReplaceAll(line, ":", " ")) {
			if !strings.HasPrefix(line, "#") && inTable().ids[Term(word)] == 0 {
				t.Errorf("the table has no %q: run make related", word)
			}
		}
	}
}

// TestNoQueryTakesLong: a time slot is not interrupted while a query is parsed and matched.
func TestNoQueryTakesLong(t *testing.T) {
	t.Parallel()
	x := newBuilder(0, &Dictionary{})
	x.add([]byte(strings.Repeat("x ", maxPlaces)), 1)
	b := x.finish()
	phrase := strings.Repeat("x ", 4)
	for name, text := range map[string]string{
		"phrases":         strings.Repeat(`"`+phrase+`" -"`+phrase+`" `, maxPhrases),
		"unclosed quotes": strings.Repeat("„ ", 1<<18),
	} {
		begun := time.Now()
		q := ParseQuery(text)
		q.Rank().Add(b)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%s: it took %s", name, took)
		}
	}
}
