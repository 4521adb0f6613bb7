//go:build bleve

// bleve and the modules behind it take long to compile, and nothing but `make bench` needs
// them.

package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/blevesearch/bleve/v2"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/de"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/en"
	_ "github.com/blevesearch/bleve/v2/analysis/lang/ru"
	index "github.com/blevesearch/bleve_index_api"

	"github.com/memory-ledger/ledger/services/recall"
	"github.com/memory-ledger/ledger/services/recall/fixture"
)

func init() { parts = append(parts, part{"recall", nil, (*world).recalls}) }

// recalls compares how often the answer to a question is among the first 1, 3 and 5 hits
// with bleve's BM25, which is told the language.
func (w *world) recalls(context.Context) error {
	for _, set := range append([]fixture.Set{
		fixture.Plain(50, false), fixture.Plain(50, true), fixture.Plain(150, false), fixture.Plain(150, true),
	}, fixture.Lives()...) {
		ours, err := set.Within(func(texts, questions []string) ([][]int, error) { return ranked(set.Apart, texts, questions), nil })
		if err != nil {
			return err
		}
		beside, err := set.Within(func(texts, questions []string) ([][]int, error) { return askBleve(set.Language, texts, questions) })
		if err != nil {
			return err
		}
		at := func(within [6]float64) string {
			return fmt.Sprintf("%.2f, %.2f, %.2f", within[1], within[3], within[5])
		}
		add("recall: "+set.Name+", answers among the first 1, 3, 5; bleve's; at 5", at(ours), at(beside), ours[5]/beside[5])
	}
	return nil
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
