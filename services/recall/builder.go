package recall

import (
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxPlaces bounds the indexed words of a text.
const maxPlaces = 1<<16 - 1

// builder makes an index, text by text. The language of a text without a function word is
// known only after all texts were added, so the builder keeps their words until then.
type builder struct {
	*Dictionary
	block *Words
	texts []uint32   // word ids of all texts
	ends  []int      // where each text ends in texts
	in    []language // of each text; 0 while it is unknown
	votes vote
}

// Dictionary remembers words and their terms, from one index of an owner to the next. The
// zero Dictionary is empty. It is not safe for concurrent use.
type Dictionary struct {
	ids     map[string]uint32 // of words, as written
	words   []word            // by id
	termIDs map[string]uint32
	terms   []string // by id
	related []uint16 // by id: in the table of related words
}

// word is a word as written.
type word struct {
	text   string
	votes  languageSet // languages in which it is a function word
	script language
	terms  []termsIn
}

// termsIn is the terms of a word in a language; other is noTerm for most words.
type termsIn struct {
	language    language
	term, other uint32
}

const noTerm = ^uint32(0)

// Index makes the index of texts, which belong to the leaves from first on. created has
// the times of writing, in Unix seconds.
func (d *Dictionary) Index(first uint64, texts iter.Seq[[]byte], created []uint32) *Words {
	x := newBuilder(first, d)
	i := 0
	for text := range texts {
		x.add(text, created[i])
		i++
	}
	return x.finish()
}

func newBuilder(first uint64, d *Dictionary) *builder {
	if d.ids == nil || len(d.words) > 100_000 { // do not let it grow without bound
		*d = Dictionary{ids: map[string]uint32{}, termIDs: map[string]uint32{}}
	}
	return &builder{block: &Words{first: first}, Dictionary: d}
}

// add adds the next leaf.
func (x *builder) add(text []byte, created uint32) {
	var votes vote
	var script language
	begin, length := len(x.texts), 0
	eachWord(text, func(raw []byte) {
		if len(x.texts)-begin >= maxPlaces {
			return
		}
		id := x.id(raw)
		w := &x.words[id]
		if w.votes == 0 {
			length++
		}
		for s := w.votes; s != 0; s &= s - 1 {
			votes[first(s)]++
		}
		script = cmp.Or(script, w.script)
		x.texts = append(x.texts, id)
	})
	x.ends = append(x.ends, len(x.texts))
	in := votes.winner()
	if in == 0 && script != inEnglish {
		in = script
	}
	if in != 0 {
		x.votes[in]++
	}
	x.in = append(x.in, in)
	x.block.lengths = append(x.block.lengths, uint16(min(length, maxPlaces)))
	x.block.created = append(x.block.created, created)
}

func (d *Dictionary) id(raw []byte) uint32 {
	raw = beginning(raw, maxWordBytes)
	if id, ok := d.ids[string(raw)]; ok {
		return id
	}
	text := string(raw)
	folded := foldedWord(text)
	r, _ := utf8.DecodeRuneInString(folded)
	id := uint32(len(d.words))
	d.ids[text] = id
	d.words = append(d.words, word{text: text, votes: functionWords[folded], script: byScript(r)})
	return id
}

// finish returns the index.
func (x *builder) finish() *Words {
	most := cmp.Or(x.votes.winner(), inEnglish)
	counts := make([]uint32, len(x.terms))
	x.each(most, func(_ int, _ uint16, id uint32) {
		for uint32(len(counts)) <= id {
			counts = append(counts, 0)
		}
		counts[id]++
	})

	// Places by term. A term's leaves ascend, because the texts are taken in order.
	type place struct {
		leaf  uint32
		place uint16
	}
	ends := make([]uint32, len(counts))
	total := uint32(0)
	var order []uint32 // the terms of the index
	for id, n := range counts {
		ends[id] = total
		total += n
		if n > 0 {
			order = append(order, uint32(id))
		}
	}
	places := make([]place, total)
	x.each(most, func(leaf int, at uint16, id uint32) {
		places[ends[id]] = place{uint32(leaf), at}
		ends[id]++
	})

	slices.SortFunc(order, func(a, b uint32) int { return strings.Compare(x.terms[a], x.terms[b]) })
	b := x.block
	var all strings.Builder
	for _, id := range order {
		b.begins = append(b.begins, uint32(all.Len()))
		b.starts = append(b.starts, uint32(len(b.postings)))
		b.related = append(b.related, x.related[id])
		all.WriteString(x.terms[id])
		mine := places[ends[id]-counts[id] : ends[id]]
		last := uint32(0)
		for len(mine) > 0 {
			n := 1
			for n < len(mine) && mine[n].leaf == mine[0].leaf {
				n++
			}
			b.postings = binary.AppendUvarint(b.postings, uint64(mine[0].leaf-last))
			b.postings = binary.AppendUvarint(b.postings, uint64(n))
			before := uint16(0)
			for _, p := range mine[:n] {
				b.postings = binary.AppendUvarint(b.postings, uint64(p.place-before))
				before = p.place
			}
			last = mine[0].leaf
			mine = mine[n:]
		}
	}
	b.begins = append(b.begins, uint32(all.Len()))
	b.starts = append(b.starts, uint32(len(b.postings)))
	b.terms = all.String()
	b.postings, b.begins, b.starts = slices.Clip(b.postings), slices.Clip(b.begins), slices.Clip(b.starts)
	b.related = slices.Clip(b.related)
	b.lengths, b.created = slices.Clip(b.lengths), slices.Clip(b.created)
	return b
}

// each calls yield for each term of each text, in the order of the texts.
func (x *builder) each(most language, yield func(leaf int, place uint16, id uint32)) {
	begin := 0
	for leaf, end := range x.ends {
		in := cmp.Or(x.in[leaf], most)
		x.block.languages = x.block.languages.with(in)
		for at, id := range x.texts[begin:end] {
			t := x.termsOf(id, in)
			yield(leaf, uint16(at), t.term)
			if t.other != noTerm {
				yield(leaf, uint16(at), t.other)
			}
		}
		begin = end
	}
}

// termsOf returns the terms of a word in a language.
func (d *Dictionary) termsOf(id uint32, l language) termsIn {
	w := &d.words[id]
	for _, t := range w.terms {
		if t.language == l {
			return t
		}
	}
	term, other := terms(w.text, l)
	t := termsIn{l, d.termID(term), d.termID(other)}
	w.terms = append(w.terms, t)
	return t
}

func (d *Dictionary) termID(term string) uint32 {
	if term == "" {
		return noTerm
	}
	id, ok := d.termIDs[term]
	if !ok {
		id = uint32(len(d.terms))
		d.termIDs[term] = id
		d.terms = append(d.terms, term)
		d.related = append(d.related, inTable().ids[term])
	}
	return id
}
