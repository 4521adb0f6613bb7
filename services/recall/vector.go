package recall

import (
	"math"
	"slices"

	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
)

// vector is the direction of an embedding. Each component is a fraction of the largest
// one, from -127 to 127.
type vector []int8

// quantize makes a vector. A zero embedding has no direction, so it is near nothing.
func quantize(embedding []float64) vector {
	largest := 0.0
	for _, x := range embedding {
		largest = max(largest, math.Abs(x))
	}
	v := make(vector, len(embedding))
	if largest == 0 {
		v[0] = refused
		return v
	}
	for i, x := range embedding {
		v[i] = int8(math.Round(x / largest * 127))
	}
	return v
}

// refused is the first component of a vector that stands for no vector: the endpoint
// refuses the text. No other vector has it.
const refused = -128

// norm is the length of a vector: negative for a refused vector, 0 for a missing one.
func (v vector) norm() float32 {
	if len(v) > 0 && v[0] == refused {
		return -1
	}
	return float32(math.Sqrt(float64(dot(v, v))))
}

func dot(a, b vector) (sum int32) {
	b = b[:len(a)]
	for i, x := range a {
		sum += int32(x) * int32(b[i])
	}
	return sum
}

// vectorPage is the vectors of the leaves of a page, side by side. Missing vectors are
// zero. A page is not changed once others may see it.
type vectorPage struct {
	dimensions int
	vectors    vector
	norms      []float32
}

// pageOf returns the page with these vectors, or an empty page if they are no vectors.
func pageOf(count int, vectors []int8) *vectorPage {
	if count <= 0 || count > bodypages.Leaves || len(vectors) == 0 || len(vectors)%count != 0 {
		return &vectorPage{}
	}
	p := &vectorPage{dimensions: len(vectors) / count, vectors: vectors, norms: make([]float32, count)}
	for i := range p.norms {
		p.norms[i] = p.at(i).norm()
	}
	return p
}

func (p *vectorPage) at(leaf int) vector {
	return p.vectors[leaf*p.dimensions : (leaf+1)*p.dimensions]
}

// has reports whether a leaf has a vector of so many dimensions, or was refused.
func (p *vectorPage) has(leaf, dimensions int) bool {
	return p.dimensions == dimensions && leaf < len(p.norms) && p.norms[leaf] != 0
}

// missing counts how many of the first leaves have no vector.
func (p *vectorPage) missing(leaves, dimensions int) (n int) {
	for i := range leaves {
		if !p.has(i, dimensions) {
			n++
		}
	}
	return n
}

// cosine compares a leaf that has a vector with a query.
func (p *vectorPage) cosine(leaf int, query vector, norm float32) float32 {
	if p.norms[leaf] < 0 || norm <= 0 {
		return 0
	}
	return float32(dot(query, p.at(leaf))) / (p.norms[leaf] * norm)
}

// with returns a page with the vectors of some more leaves.
func (p *vectorPage) with(leaves []int, vectors []vector) *vectorPage {
	dimensions := p.dimensions
	for _, v := range vectors {
		if v != nil {
			dimensions = len(v)
		}
	}
	if dimensions == 0 {
		return p // all were refused, so the dimensions are unknown
	}
	count := max(slices.Max(leaves)+1, len(p.norms))
	all := make(vector, count*dimensions)
	if p.dimensions == dimensions {
		copy(all, p.vectors)
	}
	for i, leaf := range leaves {
		if place := all[leaf*dimensions : (leaf+1)*dimensions]; vectors[i] != nil {
			copy(place, vectors[i])
		} else {
			place[0] = refused
		}
	}
	return pageOf(count, all)
}

// bytes is how much memory the page takes.
func (p *vectorPage) bytes() int64 { return 128 + int64(len(p.vectors)+4*len(p.norms)) }
