//go:build bleve

// bleve and the modules behind it take long to compile, and nothing but `make bench` needs
// them.

package quality

import (
	"strconv"
	"testing"

	"github.com/blevesearch/bleve/v2"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/de"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/en"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/ru"
	index "github.com/blevesearch/bleve_index_api"

	"github.com/memory-ledger/ledger/infra/testkit"
)

// TestBesideBleve prints the shares of answers among the first 1, 3 and 5 hits, beside those
// of bleve's BM25, which is told the language.
func TestBesideBleve(t *testing.T) {
	for _, s := range append([]set{plain(50, false), plain(50, true), plain(150, false), plain(150, true)}, talks()...) {
		beside, err := s.within(func(texts, questions []string) ([][]int, error) { return askBleve(s.language, texts, questions) })
		testkit.Must(t, err)
		ours := measure(t, s)
		t.Logf("%s: ours %.2f, %.2f, %.2f; bleve %.2f, %.2f, %.2f; at 5: %.2f", s.name, ours[1], ours[3], ours[5], beside[1], beside[3], beside[5], ours[5]/beside[5])
	}
}

func askBleve(language string, texts, questions []string) (all [][]int, err error) {
	mapping := bleve.NewIndexMapping()
	mapping.DefaultAnalyzer, mapping.ScoringModel = language, index.BM25Scoring
	ix, err := bleve.NewMemOnly(mapping)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ix.Close() }()
	batch := ix.NewBatch()
	for i, text := range texts {
		if err := batch.Index(strconv.Itoa(i), map[string]string{"text": text}); err != nil {
			return nil, err
		}
	}
	if err := ix.Batch(batch); err != nil {
		return nil, err
	}
	for _, question := range questions {
		answer, err := ix.Search(bleve.NewSearchRequest(bleve.NewMatchQuery(question)))
		if err != nil {
			return nil, err
		}
		found := make([]int, len(answer.Hits))
		for i, hit := range answer.Hits {
			if found[i], err = strconv.Atoi(hit.ID); err != nil {
				return nil, err
			}
		}
		all = append(all, found)
	}
	return all, nil
}
