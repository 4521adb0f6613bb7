package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/search"
)

// at returns a head of the first read models that a process sees.
func at(seq uint64) fence.Head { return fence.Head{Seq: seq} }

func TestExtentsAreRightOrSilent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		put, get Reader
		want     bool
	}{
		"same head":         {Reader{"a", at(7)}, Reader{"a", at(7)}, true},
		"the log went on":   {Reader{"a", at(7)}, Reader{"a", at(8)}, false},
		"a slower reader":   {Reader{"a", at(7)}, Reader{"a", at(6)}, false},
		"head unknown now":  {Reader{"a", at(7)}, Reader{"a", at(0)}, false},
		"head unknown then": {Reader{"a", at(0)}, Reader{"a", at(0)}, false},
		"other read models": {Reader{"a", at(7)}, Reader{"a", fence.Head{Seq: 7, Tables: 1}}, false},
		"somebody else's":   {Reader{"a", at(7)}, Reader{"b", at(7)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := NewHeadCache()
			x.put(c.put, extent{leaves: 3})
			if e, ok := x.get(c.get); ok != c.want || ok && e.leaves != 3 {
				t.Errorf("got %v %+v", ok, e)
			}
		})
	}
	var none *HeadCache
	none.put(Reader{"a", at(1)}, extent{})
	if _, ok := none.get(Reader{"a", at(1)}); ok {
		t.Error("no cache held something")
	}
}

// TestALogNeverGetsShorter: of two readers at one head, the one that saw less may store its
// extent last.
func TestALogNeverGetsShorter(t *testing.T) {
	t.Parallel()
	batch := func(size uint64) *batches.Batch { return &batches.Batch{Size: size} }
	old := extent{leaves: 5, newest: batch(4)}
	for name, c := range map[string]struct {
		head fence.Head
		late extent
		want extent
	}{
		"fewer leaves":        {at(7), extent{leaves: 4, newest: batch(4)}, old},
		"less is anchored":    {at(7), extent{leaves: 6, newest: batch(3)}, old},
		"nothing is anchored": {at(7), extent{leaves: 5}, old},
		"of an earlier head":  {at(6), extent{leaves: 9, newest: batch(9)}, old},
		"more leaves":         {at(7), extent{leaves: 6, newest: batch(4)}, extent{leaves: 6, newest: batch(4)}},
		"of other tables":     {fence.Head{Seq: 6, Tables: 1}, extent{leaves: 4}, extent{leaves: 4}},
		"of a later head":     {at(8), extent{leaves: 4}, extent{leaves: 4}}, // the read models have changed by then
	} {
		x := NewHeadCache()
		x.put(Reader{"a", at(7)}, old)
		x.put(Reader{"a", c.head}, c.late)
		newest := c.head
		if newest.Before(at(7)) {
			newest = at(7)
		}
		if e, ok := x.get(Reader{"a", newest}); !ok || !reflect.DeepEqual(e, c.want) {
			t.Errorf("%s: %v %+v", name, ok, e)
		}
	}
}

// cached is a service with every cache.
func (h *history) cached() *Service {
	return New(Config{Keys: h.keys, Pool: h.pool, Segments: search.NewBodySegments(1 << 30), Rows: NewRowCache(1 << 30), Heads: NewHeadCache()})
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
			c, err := s.Range(ctx, r, uint64(at), limit)
			if err != nil {
				return nil, err
			}
			views, err := collect(ctx, c)
			return page{views, c.Size()}, err
		}},
		{"search", func(ctx context.Context, s *Service, r Reader) (any, error) {
			c, err := s.Search(ctx, r, "NO SUCH")
			if err != nil {
				return nil, err
			}
			return collect(ctx, c)
		}},
		{"log", func(ctx context.Context, s *Service, r Reader) (any, error) { return s.Head(ctx, r) }},
		{fmt.Sprintf("proof of %d", at), func(ctx context.Context, s *Service, r Reader) (any, error) { return s.Prove(ctx, r, id) }},
		{fmt.Sprintf("receipt of %d", at), func(ctx context.Context, s *Service, r Reader) (any, error) { return s.Receipt(ctx, r, id) }},
		{fmt.Sprintf("from %d to %d", from, to), func(ctx context.Context, s *Service, r Reader) (any, error) {
			return s.ProveConsistency(ctx, r, from, to)
		}},
	}
}

func collect(ctx context.Context, c *Cursor) (views []View, err error) {
	for c.More() && err == nil {
		err = c.Next(ctx, func(v *View) error {
			views = append(views, *v)
			return nil
		})
	}
	return views, err
}

// TestWhatIsKeptChangesNoAnswer: caches change no answer, no matter which requests came
// before and how the owner's log has grown since.
func TestWhatIsKeptChangesNoAnswer(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	chance := rand.New(rand.NewPCG(seed, 1))
	h := newHistory(t)
	w, other := h.writer(t), h.writer(t)
	cached, plain := h.cached(), h.service(0)
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
		r := Reader{w.owner, at(heads[w])}
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
			if stranger, err := asking.ask(t.Context(), cached, Reader{other.owner, at(heads[other])}); err == nil && reflect.DeepEqual(got, stranger) && asking.name != "search" {
				t.Fatalf("seed %d: %s: somebody else got %+v", seed, asking.name, stranger)
			}
		}
	}
}

// TestWhoAsksAgainAsksNoDatabase: a repeated request needs no query until something of the
// owner changes.
func TestWhoAsksAgainAsksNoDatabase(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	h.write(t, w, make([]string, 40)...)
	h.confirm(t, w, h.cut(t, w), 40)
	h.write(t, w, make([]string, 3)...)
	s, chance := h.cached(), rand.New(rand.NewPCG(1, 1))
	questions := func(do func()) int64 {
		before := h.pool.Stat().AcquireCount()
		do()
		return h.pool.Stat().AcquireCount() - before
	}
	// Number of queries of the second request: nodes of the tree are not cached.
	for i, again := range []int64{0, 0, 0, 0, 1, 2, 1} {
		asking := askings(w, chance)[i]
		ask := func(head uint64) func() {
			return func() {
				t.Helper()
				if _, err := asking.ask(t.Context(), s, Reader{w.owner, at(head)}); err != nil {
					t.Fatal(asking.name, err)
				}
			}
		}
		ask(h.seq)()
		if n := questions(ask(h.seq)); n > again {
			t.Errorf("%s: %d questions", asking.name, n)
		}
		if n := questions(ask(0)); n == 0 && i > 0 { // an anchored row never changes
			t.Errorf("%s: no question where the head is not known", asking.name)
		}
	}
}

// TestProofsAreOfTheBatchThatCoversTheLeaf, which usually is not the newest.
func TestProofsAreOfTheBatchThatCoversTheLeaf(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	var ids []string
	for range 2 {
		h.write(t, w, "one", "two")
		ids = append(ids, h.cut(t, w))
		h.confirm(t, w, ids[len(ids)-1], len(w.written))
	}
	h.write(t, w, "five")
	s, r := h.cached(), Reader{w.owner, at(h.seq)}
	newest := events.Hash{4, 'r'}
	for leaf, want := range map[int]struct {
		size  uint64
		batch string // "" if not anchored yet
	}{1: {2, ids[0]}, 3: {4, ids[1]}, 4: {5, ""}} {
		id := w.written[leaf].ID
		proof, err := s.Prove(t.Context(), r, id)
		if err != nil || *proof.OnchainRoot != newest || (proof.TxSignature == nil) != (want.batch == "") ||
			proof.TxSignature != nil && *proof.TxSignature != "of "+want.batch {
			t.Errorf("proof of leaf %d: %+v, %v", leaf, proof, err)
		}
		receipt, err := s.Receipt(t.Context(), r, id)
		if err != nil || receipt.TreeSize != want.size || receipt.BatchRoot != proof.BatchRoot || (receipt.Anchor == nil) != (want.batch == "") ||
			receipt.Anchor != nil && (receipt.Anchor.CommittedSize != 4 || len(receipt.Consistency) != int(4-want.size)/2) {
			t.Errorf("receipt of leaf %d: %+v, %v", leaf, receipt, err)
		}
		link, err := s.ProveConsistency(t.Context(), r, want.size, 5)
		if err != nil || link.FromRoot != proof.BatchRoot {
			t.Errorf("from %d to 5: %+v, %v", want.size, link, err)
		}
	}
}

// TestARowThatCameLater: a row may exist that the extent, read at the same head, does not
// cover, because its event is not acknowledged yet.
func TestARowThatCameLater(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	h.write(t, w, "one", "two")
	s, head := h.cached(), h.seq
	r := Reader{w.owner, at(head)}
	if log, err := s.Head(t.Context(), r); err != nil || log.TreeSize != 2 {
		t.Fatal(log, err)
	}
	h.write(t, w, "three")
	for _, id := range []string{w.written[2].ID, w.written[0].ID} {
		if _, err := s.Prove(t.Context(), r, id); err != nil {
			t.Errorf("a proof of what came later: %v", err)
		}
	}
	h.confirm(t, w, h.cut(t, w), 3)
	s.Rows = NewRowCache(1 << 20) // the row cache holds the new row
	proof, err := s.Prove(t.Context(), r, w.written[1].ID)
	if err != nil || proof.TxSignature == nil || proof.OnchainRoot == nil || *proof.OnchainRoot != (events.Hash{3, 'r'}) {
		t.Errorf("a proof by a batch that came later: %+v, %v", proof, err)
	}
	if receipt, err := s.Receipt(t.Context(), r, w.written[1].ID); err != nil || receipt.Anchor == nil || receipt.Anchor.CommittedSize != 3 {
		t.Errorf("a receipt by a batch that came later: %+v, %v", receipt, err)
	}
	// Read models that replace these may be older.
	if _, err := h.pool.Exec(t.Context(), `DELETE FROM memories WHERE leaf_index > 0; DELETE FROM batches`); err != nil {
		t.Fatal(err)
	}
	s.Heads = NewHeadCache()
	if _, err := s.extentWith(t.Context(), r, &memories.Memory{LeafIndex: 2}); !errors.Is(err, fence.ErrBehind) {
		t.Errorf("a leaf beyond the log: %v", err)
	}
	if _, err := s.extentWith(t.Context(), r, &memories.Memory{LeafIndex: 0, Anchored: true}); !errors.Is(err, fence.ErrBehind) {
		t.Errorf("an anchored leaf without a batch: %v", err)
	}
}
