package recall

import (
	"slices"
	"testing"
	"time"
)

// TestQuality: on lives made by rules, the answer to a question is among the first five
// hits for at least half of the questions. A plain BM25 finds a third of them, and a
// search for the question's text none.
func TestQuality(t *testing.T) {
	t.Parallel()
	const memories, questions = 400, 40
	for _, tongue := range tongues {
		t.Run(tongue.language, func(t *testing.T) {
			t.Parallel()
			l := newLife(tongue, memories, questions)
			if len(l.questions) != questions {
				t.Fatalf("%d questions", len(l.questions))
			}
			index, first, five := newLibrary(5*time.Minute, l.memories...), 0, 0
			for _, q := range l.questions {
				switch at := slices.Index(leavesOf(index.ranked(len(l.memories), q.text)), uint64(q.answer)); {
				case at < 0 || at >= 5:
				case at == 0:
					first++
					fallthrough
				default:
					five++
				}
			}
			t.Logf("hit@1 %.2f, hit@5 %.2f", float64(first)/questions, float64(five)/questions)
			if 2*five < questions {
				t.Errorf("%d of %d answers are among the first 5", five, questions)
			}
		})
	}
}
