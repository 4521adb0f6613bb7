package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
	"github.com/memory-ledger/ledger/services/keystore"
)

// words are the vocabulary of texts and queries.
var words = []string{
	"cat", "Cat", "CAT", "sleeps", "ſleeps", "Kelvin", "\u212aelvin", "Straße", "schläft", "SCHLÄFT", "σίσυφος", "ΣΊΣΥΦΟΣ",
	"日本語", "дом", "ДОМ", "\x00", "🐈", " ", "1", "on the warm chair",
}

func text(chance *rand.Rand) string {
	var b strings.Builder
	for range 1 + chance.IntN(12) {
		b.WriteString(words[chance.IntN(len(words))])
		b.WriteByte(' ')
	}
	if chance.IntN(60) == 0 { // too long for a segment
		b.WriteString(strings.Repeat("long ", bodypages.MaxBody/5))
		b.WriteString(words[chance.IntN(len(words))])
	}
	return b.String()
}

// contains is the definition of a match, tried at every position.
func contains(text, query string) bool {
	runes, length := []rune(text), utf8.RuneCountInString(query)
	for i := 0; i+length <= len(runes); i++ {
		if strings.EqualFold(string(runes[i:i+length]), query) {
			return true
		}
	}
	return false
}

// TestSearchFindsWhatWasWritten: a search returns exactly the memories that contain the
// query, as they were written. The slices they arrived in, the caches, and the body
// segments make no difference.
func TestSearchFindsWhatWasWritten(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			chance := rand.New(rand.NewPCG(seed, 7))
			h := newHistory(t)
			w, other := h.writer(t), h.writer(t)
			services := map[string]*Service{"all kept": h.service(1 << 30), "some kept": h.service(60_000), "nothing kept": h.service(0)}
			for len(w.written) < 1500 {
				texts := make([]string, 1+chance.IntN([]int{3, 90, 600}[chance.IntN(3)]))
				for i := range texts {
					texts[i] = text(chance)
				}
				h.write(t, w, texts...)
				h.write(t, other, "cat", "not yours")
				if chance.IntN(3) == 0 {
					if _, err := h.pool.Exec(t.Context(), `DELETE FROM body_pages WHERE page = $1`, chance.IntN(6)); err != nil {
						t.Fatal(err)
					}
				}
				for name, s := range services {
					if chance.IntN(3) == 0 {
						continue // its cache is behind
					}
					query := words[chance.IntN(len(words))]
					if chance.IntN(3) == 0 {
						query += " " + words[chance.IntN(len(words))]
					}
					checkSearch(t, s, w, name, query)
				}
			}
		})
	}
}

// checkSearch compares a search with the memories written, up to the leaf that it reached.
func checkSearch(t *testing.T, s *Service, w *writer, name, query string) {
	t.Helper()
	found, size, err := searchAll(t, s, w.owner, query)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var want []View
	for _, v := range w.written[:size] {
		if contains(v.Content, query) {
			want = append(want, v)
		}
	}
	if len(found) != len(want) {
		t.Fatalf("%s: %q in %d memories: %d found, %d have it", name, query, size, len(found), len(want))
	}
	for i := range found {
		if !reflect.DeepEqual(found[i], want[i]) {
			t.Fatalf("%s: %q in %d memories:\n got %+v\nwant %+v", name, query, size, found[i], want[i])
		}
	}
}

// inOrder appends the written memories, one leaf after the other.
func (w *writer) inOrder(t *testing.T, leaf *uint64) func(*View) error {
	return func(v *View) error {
		if v.LeafIndex != *leaf || v.Content != w.written[*leaf].Content {
			t.Fatalf("leaf %d after %d", v.LeafIndex, *leaf)
		}
		*leaf++
		return nil
	}
}

// TestLongBodiesComeAFewAtATime: a piece ends early if its texts are long, and no match is
// lost or found twice.
func TestLongBodiesComeAFewAtATime(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	long := strings.Repeat("x", MaxContentBytes-20)
	for first := range 4 {
		texts := make([]string, bodypages.Leaves)
		for i := range texts {
			texts[i] = fmt.Sprintf("needle %d ", first*bodypages.Leaves+i)
			if i%3 == 0 && first < 3 { // 22 MB in a segment
				texts[i] += long
			}
		}
		h.write(t, w, texts...)
	}
	kept, nothing := h.service(1<<30), h.service(0)
	for i, s := range []*Service{nothing, kept, nothing} {
		limit := uint64(firstLeaves - 1)
		if i == 2 {
			if _, err := h.pool.Exec(t.Context(), `DELETE FROM body_pages`); err != nil {
				t.Fatal(err)
			}
		}
		c, err := s.Search(t.Context(), Reader{Owner: w.owner}, "NEEDLE")
		if err != nil {
			t.Fatal(err)
		}
		var leaves, most uint64
		for c.More() {
			from := c.Position()
			if err := c.Next(t.Context(), w.inOrder(t, &leaves)); err != nil {
				t.Fatal(err)
			}
			most = max(most, c.Position()-from)
		}
		if leaves != uint64(len(w.written)) || most > limit {
			t.Errorf("%d leaves found, %d at once", leaves, most)
		}
	}
}

// TestMatchesComeInOrder: segments built from rows follow the stored ones in order, and no
// match is lost or found twice.
func TestMatchesComeInOrder(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	long := strings.Repeat("x", 6000)
	for first := range 12 { // 1.5 MB each
		texts := make([]string, bodypages.Leaves)
		for i := range texts {
			texts[i] = fmt.Sprintf("needle %d %s", first*bodypages.Leaves+i, long)
		}
		h.write(t, w, texts...)
	}
	if _, err := h.pool.Exec(t.Context(), `DELETE FROM body_pages WHERE page IN (0, 4, 5, 8)`); err != nil {
		t.Fatal(err)
	}
	kept := h.service(1 << 30)
	for i, s := range []*Service{h.service(0), kept, kept} {
		c, err := s.Search(t.Context(), Reader{Owner: w.owner}, "NEEDLE")
		if err != nil {
			t.Fatal(err)
		}
		c.textWidth = 1 // as if texts had been short
		leaf := uint64(0)
		for c.More() {
			if err := c.Next(t.Context(), w.inOrder(t, &leaf)); err != nil {
				t.Fatal(err)
			}
		}
		if leaf != uint64(len(w.written)) {
			t.Errorf("search %d: %d leaves", i, leaf)
		}
	}
}

// TestPiecesHaveAFewMegabytes: a search reads as many leaves at a time as have lookBytes,
// assuming texts as long as in the piece before.
func TestPiecesHaveAFewMegabytes(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	for width, want := range map[uint64]uint64{0: firstLeaves, 1: maxLeaves, 1000: lookBytes / 1000 / bodypages.Leaves * bodypages.Leaves, MaxContentBytes: bodypages.Leaves} {
		if got := (&Cursor{service: s, textWidth: width}).stretch(); got != want {
			t.Errorf("texts of %d bytes: %d leaves, want %d", width, got, want)
		}
	}
}

// TestEnoughEndsAChunk: ErrEnough ends a chunk with the current memory, which is not
// yielded again: in lists, cached or not, and in searches.
func TestEnoughEndsAChunk(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	texts := make([]string, 20)
	for i := range texts {
		texts[i] = fmt.Sprintf("needle %d", i)
	}
	h.write(t, w, texts...)
	s := h.service(1 << 30)
	for _, query := range []string{"", "", "needle", "needle"} {
		c, err := s.Search(t.Context(), Reader{Owner: w.owner, Head: at(1)}, query)
		if err != nil {
			t.Fatal(err)
		}
		leaf := uint64(0)
		inOrder := w.inOrder(t, &leaf)
		for before := leaf; c.More(); before = leaf {
			if err := c.Next(t.Context(), func(v *View) error { return errors.Join(inOrder(v), ErrEnough) }); err != nil {
				t.Fatal(err)
			}
			if leaf > before+1 {
				t.Fatalf("%q: %d after enough", query, leaf-before-1)
			}
		}
		if leaf != uint64(len(texts)) {
			t.Errorf("%q: %d of %d", query, leaf, len(texts))
		}
	}
}

// TestAQueryLongerThanAnyText finds nothing, at once.
func TestAQueryLongerThanAnyText(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	longest := strings.Repeat("x", MaxContentBytes)
	h.write(t, w, longest)
	for query, found := range map[string]bool{longest: true, longest + "x": false} {
		c, err := h.service(0).Search(t.Context(), Reader{Owner: w.owner}, query)
		if err != nil {
			t.Fatal(err)
		}
		if c.More() != found {
			t.Errorf("a query of %d: %v", len(query), c.More())
		}
	}
}

// TestMuchComesALittleAtATime: the bytes that a list or a search yields at once are
// bounded, for bodies and metadata.
func TestMuchComesALittleAtATime(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	h := newHistory(t)
	bodies, metadata := h.writer(t), h.writer(t)
	h.write(t, bodies, slices.Repeat([]string{strings.Repeat("x", MaxContentBytes)}, 60)...)
	h.write(t, metadata, slices.Repeat([]string{"x"}, 6*bodypages.Leaves)...)
	if _, err := h.pool.Exec(t.Context(), `UPDATE memories SET metadata = '{"x":"' || repeat('x', 60000) || '"}' WHERE owner = $1`, metadata.owner); err != nil {
		t.Fatal(err)
	}
	s := h.service(0)
	for name, test := range map[string]struct {
		owner  *writer
		query  string
		longer int // the first chunk may be longer, because the length of the rows is unknown
	}{
		"bodies, listed": {bodies, "", 0}, "bodies, found": {bodies, "X", 60 * MaxContentBytes},
		"metadata, listed": {metadata, "", 0}, "metadata, found": {metadata, "X", firstLeaves * 60_100},
	} {
		c, err := s.Search(t.Context(), Reader{Owner: test.owner.owner}, test.query)
		if err != nil {
			t.Fatal(err)
		}
		var leaf uint64
		for first := true; c.More(); first = false {
			bytes := 0
			if err := c.Next(t.Context(), func(v *View) error {
				if v.LeafIndex != leaf {
					return fmt.Errorf("leaf %d after %d", v.LeafIndex, leaf)
				}
				leaf++
				bytes += len(v.Content) + len(v.Metadata)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if most := pieceBytes + MaxContentBytes; bytes > most && (!first || bytes > most+test.longer) {
				t.Errorf("%s: %d bytes at once, up to %d", name, bytes, leaf)
			}
		}
		if leaf != uint64(len(test.owner.written)) {
			t.Errorf("%s: %d of %d leaves", name, leaf, len(test.owner.written))
		}
	}
}

// TestSearchWhileMemoriesCome: concurrent searches on a growing log each find exactly the
// matches among the leaves that existed when they began.
func TestSearchWhileMemoriesCome(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	h.write(t, w, "the first")
	// All texts are made in advance, because the searches read them.
	texts := make([]string, 3000)
	for i := range texts {
		texts[i] = fmt.Sprintf("text %d", i)
	}
	services := []*Service{h.service(1 << 30), h.service(1 << 30), h.service(100_000), h.service(0)}
	done := make(chan struct{})
	var searches sync.WaitGroup
	for i, s := range services {
		for range 2 {
			searches.Go(func() {
				for last := false; !last; {
					select {
					case <-done:
						last = true
					default:
					}
					query := fmt.Sprintf("TEXT %d", i)
					found, size, err := searchAll(t, s, w.owner, query)
					if err != nil {
						t.Error(err)
						return
					}
					want := 0
					for _, text := range texts[:size-1] {
						if strings.HasPrefix(text, strings.ToLower(query)) {
							want++
						}
					}
					if len(found) != want || last && size != uint64(1+len(texts)) {
						t.Errorf("%q in %d memories: %d found, %d have it", query, size, len(found), want)
						return
					}
				}
			})
		}
	}
	chance := rand.New(rand.NewPCG(1, 1))
	for rest := texts; len(rest) > 0; {
		n := min(1+chance.IntN(200), len(rest))
		h.write(t, w, rest[:n]...)
		rest = rest[n:]
	}
	close(done)
	searches.Wait()
}

// TestASearchEndsWhereTheLogDid: a search ends at the log's size when it began, even if
// another search has cached later leaves by then.
func TestASearchEndsWhereTheLogDid(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	s := h.service(1 << 30)
	h.write(t, w, slices.Repeat([]string{"early"}, 300)...)
	begun, err := s.Search(t.Context(), Reader{Owner: w.owner}, "L")
	if err != nil {
		t.Fatal(err)
	}
	checkSearch(t, s, w, "before", "L")
	h.write(t, w, slices.Repeat([]string{"late"}, 100)...)
	checkSearch(t, s, w, "after", "L")
	found := 0
	for begun.More() {
		if err := begun.Next(t.Context(), func(*View) error { found++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if found != 300 {
		t.Errorf("%d found of 300 that were there", found)
	}
}

// TestDamagedPagesAreNoAnswer: a damaged segment fails every search that needs it, and the
// error names it. A missing segment fails none.
func TestDamagedPagesAreNoAnswer(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w, other := h.writer(t), h.writer(t)
	for i := range 4 {
		texts := make([]string, 2*bodypages.Leaves)
		for j := range texts {
			texts[j] = fmt.Sprintf("number %d", i*len(texts)+j)
		}
		h.write(t, []*writer{w, other}[i%2], texts...)
	}
	flip := func(offset int) string {
		return fmt.Sprintf(`UPDATE body_pages SET bodies = set_byte(bodies, %[1]d, get_byte(bodies, %[1]d) # 1) WHERE page = 1`, offset)
	}
	const ids, lengths, bodies = 16, 16 + 16*bodypages.Leaves, 16 + 20*bodypages.Leaves
	for name, c := range map[string]struct {
		damage string
		want   error
	}{
		"another first leaf":   {flip(15), bodypages.ErrFormat},
		"another version":      {flip(3), bodypages.ErrFormat},
		"an id":                {flip(ids + 100), keystore.ErrSealed},
		"a length":             {flip(lengths + 3), bodypages.ErrFormat},
		"a nonce":              {flip(bodies), keystore.ErrSealed},
		"a body":               {flip(bodies + 20), keystore.ErrSealed},
		"cut short":            {`UPDATE body_pages SET bodies = substr(bodies, 1, length(bodies) - 1) WHERE page = 1`, bodypages.ErrFormat},
		"the page before":      {`UPDATE body_pages SET bodies = (SELECT bodies FROM body_pages b WHERE b.owner = body_pages.owner AND b.page = 0) WHERE page = 1`, bodypages.ErrFormat},
		"somebody else's page": {`UPDATE body_pages SET bodies = (SELECT bodies FROM body_pages b WHERE b.owner <> body_pages.owner AND b.page = 1) WHERE page = 1`, keystore.ErrSealed},
		"no page":              {`DELETE FROM body_pages WHERE page = 1`, nil},
		"no pages":             {`DELETE FROM body_pages`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := h.pool.Exec(t.Context(), `CREATE TABLE kept AS TABLE body_pages; `+c.damage); err != nil {
				t.Fatal(err)
			}
			for _, s := range []*Service{h.service(0), h.service(1 << 30)} {
				for range 2 { // an error is not cached, a good answer is
					found, _, err := searchAll(t, s, w.owner, "NUMBER 300")
					if !errors.Is(err, c.want) || err == nil && len(found) != 1 {
						t.Errorf("%d found, %v", len(found), err)
					}
				}
			}
			if _, err := h.pool.Exec(t.Context(), `DELETE FROM body_pages; INSERT INTO body_pages TABLE kept; DROP TABLE kept`); err != nil {
				t.Fatal(err)
			}
		})
	}
	// Two leaves of a segment in each other's place can be opened; their rows tell them
	// apart.
	swap := fmt.Sprintf(`UPDATE body_pages SET bodies = substr(bodies, 1, 16) || substr(bodies, 33, 16) || substr(bodies, 17, 16) || substr(bodies, 49, 16*254 + 4*256)
		|| substr(bodies, %[1]d + %[2]d + 1, %[2]d) || substr(bodies, %[1]d + 1, %[2]d) || substr(bodies, %[1]d + 2 * %[2]d + 1)
		WHERE page = 1 AND owner = $1`, bodies, 12+16+len("number 256"))
	if _, err := h.pool.Exec(t.Context(), swap, string(w.owner)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := searchAll(t, h.service(0), w.owner, "number 257"); !errors.Is(err, bodypages.ErrFormat) {
		t.Errorf("leaves in each other's place: %v", err)
	}
}
