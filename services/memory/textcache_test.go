package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
)

// TestTheCacheKeepsToItsBudget with rows, texts and words, and drops owners who were
// longest away. A read that began before its owner was dropped keeps nothing.
func TestTheCacheKeepsToItsBudget(t *testing.T) {
	t.Parallel()
	const budget = 100_000
	x, before := NewTextCache(budget), map[events.Owner]*kept{}
	for i := range 1000 {
		r := Reader{Owner: events.Owner(fmt.Sprint(i % 7)), Head: at(1)}
		if i%2 == 0 {
			x.put(r.Owner, before[r.Owner], &chunk{number: uint64(i), texts: make([]byte, 300), created: make([]uint32, 1)})
		} else {
			x.putRow(r, &memories.Memory{ID: fmt.Sprint(i), Owner: r.Owner, LeafIndex: uint64(i), Sealed: make([]byte, 500)})
		}
		if used := x.Bytes(); used > budget {
			t.Fatalf("%d bytes are kept", used)
		}
		before[r.Owner] = x.kept(r.Owner) // of a search that keeps its texts after all others were used
	}
	r := Reader{Owner: "0", Head: at(1)}
	x.putRow(r, &memories.Memory{ID: "corrected", Owner: r.Owner, SupersededBy: make([]memories.Other, 5000)})
	if x.row(r, "corrected") != nil {
		t.Error("a row is kept that has more corrections than fit")
	}
	o := x.kept("0")
	x.Drop("0")
	x.put("0", o, &chunk{texts: make([]byte, 10), created: make([]uint32, 1)})
	if found := x.chunks("0", 0, 1); found[0] != nil {
		t.Error("a text is kept whose owner was dropped")
	}
	for i := range 7 {
		x.Drop(events.Owner(fmt.Sprint(i)))
	}
	if x.Bytes() != 0 {
		t.Errorf("%d bytes are charged for nothing", x.Bytes())
	}
}

// asking is one kind of request.
type asking struct {
	name string
	ask  func(context.Context, *Service, Reader) (any, error)
}

type page struct {
	views []View
	of    uint64
}

func askings(w *writer, chance *rand.Rand) []asking {
	size := len(w.written)
	at, limit := chance.IntN(size), 1+chance.IntN(20)
	from, to := uint64(chance.IntN(size+1)), uint64(size)
	id := w.written[at].ID
	return []asking{
		{fmt.Sprintf("get %d", at), func(ctx context.Context, s *Service, r Reader) (any, error) { return s.Get(ctx, r, id) }},
		{fmt.Sprintf("list %d from %d", limit, at), func(ctx context.Context, s *Service, r Reader) (any, error) {
			p, err := s.Select(ctx, r, Selection{Order: Oldest, From: uint64(at), To: uint64(at + limit)}, nil)
			if err != nil {
				return nil, err
			}
			views, err := collect(ctx, p)
			return page{views, p.Size()}, err
		}},
		{"search", func(ctx context.Context, s *Service, r Reader) (any, error) {
			p, err := s.Select(ctx, r, Selection{Query: "NO SUCH", Order: Oldest}, nil)
			if err != nil {
				return nil, err
			}
			return collect(ctx, p)
		}},
		{"log", func(ctx context.Context, s *Service, r Reader) (any, error) { return s.Head(ctx, r) }},
		{fmt.Sprintf("proof of %d", at), func(ctx context.Context, s *Service, r Reader) (any, error) { return s.Prove(ctx, r, id) }},
		{fmt.Sprintf("receipt of %d", at), func(ctx context.Context, s *Service, r Reader) (any, error) { return s.Receipt(ctx, r, id) }},
		{fmt.Sprintf("from %d to %d", from, to), func(ctx context.Context, s *Service, r Reader) (any, error) {
			return s.ProveConsistency(ctx, r, from, to)
		}},
	}
}

// TestWhatIsKeptChangesNoAnswer: caches change no answer, no matter which requests came
// before and how the owner's log has grown since.
func TestWhatIsKeptChangesNoAnswer(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	chance := rand.New(rand.NewPCG(seed, 1))
	h := newHistory(t)
	w, other := h.writer(t), h.writer(t)
	cached, plain := h.service(1<<30), h.service(0)
	h.write(t, w, "the first")
	type cutBatch struct {
		id   string
		size int
	}
	var open []cutBatch
	heads := map[*writer]uint64{w: h.seq}
	for range 150 {
		switch chance.IntN(6) {
		case 0:
			h.write(t, w, make([]string, 1+chance.IntN(30))...)
			heads[w] = h.seq
		case 1:
			open = append(open, cutBatch{h.cut(t, w), len(w.written)})
			heads[w] = h.seq
		case 2:
			if len(open) > 0 {
				h.confirm(t, w, open[0].id, open[0].size)
				open = open[1:]
				heads[w] = h.seq
			}
		case 3: // changes nothing for w
			h.write(t, other, "not yours")
			heads[other] = h.seq
		}
		r := Reader{Owner: w.owner, Head: at(heads[w])}
		if chance.IntN(10) == 0 {
			r.Head = at(0) // the head is not always known
		}
		for _, asking := range askings(w, chance) {
			got, err := asking.ask(t.Context(), cached, r)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, asking.name, err)
			}
			want, err := asking.ask(t.Context(), plain, r)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("seed %d: %s, %d leaves:\n got %+v\nwant %+v, %v", seed, asking.name, len(w.written), got, want, err)
			}
			if stranger, err := asking.ask(t.Context(), cached, Reader{Owner: other.owner, Head: at(heads[other])}); err == nil && reflect.DeepEqual(got, stranger) && asking.name != "search" {
				t.Fatalf("seed %d: %s: somebody else got %+v", seed, asking.name, stranger)
			}
		}
	}
}
