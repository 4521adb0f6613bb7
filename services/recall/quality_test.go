package recall

import (
	"testing"

	"github.com/memory-ledger/ledger/services/recall/fixture"
)

// TestQuality: on talks made by rules, the answer to a question is among the first five
// hits for at least half of the questions. A plain BM25 finds a third of them, and a
// search for the question's text none.
func TestQuality(t *testing.T) {
	t.Parallel()
	for _, set := range fixture.Lives() {
		if within := measure(t, set); within[5] < 0.5 {
			t.Errorf("%s: %.2f of the answers are among the first 5", set.Name, within[5])
		}
	}
}

// TestQualityOfPlainQuestions: of questions in other words than the facts, three of four
// find the answer among the first three hits of 50 facts, and three of five of 150 facts.
// Without related words, it is two of five.
func TestQualityOfPlainQuestions(t *testing.T) {
	t.Parallel()
	for _, set := range []struct {
		facts  int
		unseen bool
		least  float64
	}{{50, false, 0.73}, {50, true, 0.75}, {150, false, 0.6}, {150, true, 0.6}} {
		if within := measure(t, fixture.Plain(set.facts, set.unseen)); within[3] < set.least {
			t.Errorf("%d facts, unseen half %t: %.2f of the answers are among the first 3, at least %.2f are wanted", set.facts, set.unseen, within[3], set.least)
		}
	}
}

func measure(t *testing.T, set fixture.Set) [6]float64 {
	t.Helper()
	within, err := set.Within(func(texts, questions []string) (all [][]int, _ error) {
		index := newLibrary(set.Apart, texts...)
		for _, q := range questions {
			var found []int
			for _, leaf := range leavesOf(index.ranked(len(texts), q)) {
				found = append(found, int(leaf))
			}
			all = append(all, found)
		}
		return all, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return within
}
