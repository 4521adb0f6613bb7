//go:build !race

// Nothing here is concurrent, and bleve takes long to compile with the race detector.

package recall

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blevesearch/bleve/v2"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/de"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/en"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/es"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/fr"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/ru"
	"github.com/blevesearch/bleve/v2/mapping"
	index "github.com/blevesearch/bleve_index_api"
)

const (
	livesMemories  = 2000
	livesQuestions = 200
)

// quality is how often the answer was among the first hits.
type quality struct {
	asked, at1, at5, at10 int
	reciprocal            float64
}

func (q *quality) count(found []uint64, answer int) {
	q.asked++
	at := slices.Index(found, uint64(answer))
	if at < 0 {
		return
	}
	q.reciprocal += 1 / float64(at+1)
	if at < 1 {
		q.at1++
	}
	if at < 5 {
		q.at5++
	}
	if at < 10 {
		q.at10++
	}
}

func (q *quality) String() string {
	n := float64(q.asked)
	return fmt.Sprintf("hit@1 %.2f, @5 %.2f, @10 %.2f, MRR %.2f", float64(q.at1)/n, float64(q.at5)/n, float64(q.at10)/n, q.reciprocal/n)
}

// TestQuality compares recall with bleve's BM25, which gets the language and the plain
// texts, and with substring search, on lives made by rules. Recall's hit@5 must be at
// least 1.1 times bleve's in each language.
func TestQuality(t *testing.T) {
	t.Parallel()
	for _, tongue := range tongues {
		t.Run(tongue.language, func(t *testing.T) {
			t.Parallel()
			l := newLife(tongue, livesMemories/len(tongues), livesQuestions/len(tongues))
			if len(l.questions) != livesQuestions/len(tongues) {
				t.Fatalf("%d questions", len(l.questions))
			}
			var ours, bleves, substring quality
			index := newLibrary(5*time.Minute, l.memories...)
			other := bleveOf(t, l)
			for _, q := range l.questions {
				ours.count(leavesOf(index.ranked(len(l.memories), q.text)), q.answer)
				bleves.count(askBleve(t, other, q.text), q.answer)
				substring.count(containing(l.memories, q.text), q.answer)
			}
			t.Logf("recall:    %v", &ours)
			t.Logf("bleve:     %v", &bleves)
			t.Logf("substring: %v", &substring)
			if float64(ours.at5) < 1.1*float64(bleves.at5) {
				t.Errorf("recall has %d of %d answers among the first 5, bleve %d", ours.at5, ours.asked, bleves.at5)
			}
		})
	}
}

func containing(memories []string, query string) (found []uint64) {
	for i, m := range memories {
		if strings.Contains(strings.ToLower(m), strings.ToLower(query)) {
			found = append(found, uint64(i))
		}
	}
	return found
}

func bleveOf(t *testing.T, l life) bleve.Index {
	t.Helper()
	m := mapping.NewIndexMapping()
	m.DefaultAnalyzer = l.language
	m.ScoringModel = index.BM25Scoring
	ix, err := bleve.NewMemOnly(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ix.Close() })
	batch := ix.NewBatch()
	for i, text := range l.memories {
		if err := batch.Index(fmt.Sprint(i), map[string]string{"text": text}); err != nil {
			t.Fatal(err)
		}
	}
	if err := ix.Batch(batch); err != nil {
		t.Fatal(err)
	}
	return ix
}

func askBleve(t *testing.T, ix bleve.Index, text string) (found []uint64) {
	t.Helper()
	q := bleve.NewMatchQuery(text)
	q.SetField("text")
	request := bleve.NewSearchRequest(q)
	request.Size = 100
	result, err := ix.Search(request)
	if err != nil {
		t.Fatal(err)
	}
	for _, hit := range result.Hits {
		var leaf uint64
		if _, err := fmt.Sscan(hit.ID, &leaf); err != nil {
			t.Fatal(err)
		}
		found = append(found, leaf)
	}
	return found
}
