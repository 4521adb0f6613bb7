package recall

import (
	"hash/fnv"
	"os"
	"slices"
	"strings"
	"testing"
)

// facts are what an owner told, and questions in other words.
type facts struct {
	texts []string
	asked []question
}

// manyFacts reads testdata/lives_en.txt: a line for each of four owners, and for each fact
// with the questions that it answers. Corrections follow what they correct. An owner has
// as many facts as most says, before another one begins.
func manyFacts(t *testing.T, most int) (all []facts) {
	t.Helper()
	file, err := os.ReadFile("testdata/lives_en.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(file)) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		begins := strings.HasPrefix(line, "= ")
		if begins || len(all[len(all)-1].texts) == most {
			all = append(all, facts{})
		}
		if begins {
			continue
		}
		of := &all[len(all)-1]
		for _, text := range fields[1:] {
			of.asked = append(of.asked, question{text, len(of.texts)})
		}
		of.texts = append(of.texts, fields[0])
	}
	return all
}

// unseen reports whether a question is of the half that is not looked at while tuning.
func (q question) unseen() bool {
	h := fnv.New32a()
	h.Write([]byte(q.text))
	return h.Sum32()>>16&1 == 1
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
		var within [6]float64
		asked := 0.0
		for _, of := range manyFacts(t, set.facts) {
			index := newLibrary(day, of.texts...)
			for _, q := range of.asked {
				if q.unseen() != set.unseen {
					continue
				}
				asked++
				at := slices.Index(leavesOf(index.ranked(len(of.texts), q.text)), uint64(q.answer))
				for n := at + 1; at >= 0 && n < len(within); n++ {
					within[n]++
				}
			}
		}
		t.Logf("%d facts, unseen half %t, %.0f questions: hit@1 %.2f, hit@3 %.2f, hit@5 %.2f",
			set.facts, set.unseen, asked, within[1]/asked, within[3]/asked, within[5]/asked)
		if within[3]/asked < set.least {
			t.Errorf("at least %.2f are wanted at 3", set.least)
		}
	}
}
