package recall

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"
)

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
