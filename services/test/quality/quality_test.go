package quality

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/infra/testkit"
	"github.com/memory-ledger/ledger/services/recall"
)

// TestQuality: on talks made by rules, the answer to a question is among the first five
// hits for at least half of the questions. A plain BM25 finds a third of them, and a
// search for the question's text none.
func TestQuality(t *testing.T) {
	t.Parallel()
	for _, set := range talks() {
		if within := measure(t, set); within[5] < 0.5 {
			t.Errorf("%s: %.2f of the answers are among the first 5", set.name, within[5])
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
		if within := measure(t, plain(set.facts, set.unseen)); within[3] < set.least {
			t.Errorf("%d facts, unseen half %t: %.2f of the answers are among the first 3, at least %.2f are wanted", set.facts, set.unseen, within[3], set.least)
		}
	}
}

func measure(t *testing.T, s set) [6]float64 {
	t.Helper()
	part, err := s.within(func(texts, questions []string) ([][]int, error) { return ranked(s.apart, texts, questions), nil })
	testkit.Must(t, err)
	return part
}

// ranked returns the hits of some questions among texts that were written some time apart.
func ranked(apart time.Duration, texts, questions []string) (all [][]int) {
	created := make([]uint32, len(texts))
	for i := range created {
		created[i] = uint32(time.Unix(1_700_000_000, 0).Add(time.Duration(i) * apart).Unix())
	}
	words := new(recall.Dictionary).Index(0, func(yield func([]byte) bool) {
		for _, text := range texts {
			if !yield([]byte(text)) {
				return
			}
		}
	}, created)
	for _, question := range questions {
		ranking := recall.ParseQuery(question).Rank()
		ranking.Add(words)
		hits := ranking.Hits(uint64(len(texts)), func(uint64) bool { return true })
		slices.SortFunc(hits, func(a, b recall.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(b.Leaf, a.Leaf)) })
		found := make([]int, len(hits))
		for i, hit := range hits {
			found[i] = int(hit.Leaf)
		}
		all = append(all, found)
	}
	return all
}
