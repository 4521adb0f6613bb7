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
)

// TestWhatChangesIsKeptAtOneHead: rows and extents are returned to readers of the same
// head, owner and read models only.
func TestWhatChangesIsKeptAtOneHead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		put, get Reader
		want     bool
	}{
		"same head":         {Reader{Owner: "a", Head: at(7)}, Reader{Owner: "a", Head: at(7)}, true},
		"the log went on":   {Reader{Owner: "a", Head: at(7)}, Reader{Owner: "a", Head: at(8)}, false},
		"a slower reader":   {Reader{Owner: "a", Head: at(7)}, Reader{Owner: "a", Head: at(6)}, false},
		"head unknown now":  {Reader{Owner: "a", Head: at(7)}, Reader{Owner: "a", Head: at(0)}, false},
		"head unknown then": {Reader{Owner: "a", Head: at(0)}, Reader{Owner: "a", Head: at(0)}, false},
		"other read models": {Reader{Owner: "a", Head: at(7)}, Reader{Owner: "a", Head: fence.Head{Seq: 7, Tables: 1}}, false},
		"somebody else's":   {Reader{Owner: "a", Head: at(7)}, Reader{Owner: "b", Head: at(7)}, false},
	} {
		x := NewTextCache(1 << 20)
		x.putExtent(c.put, &extent{leaves: 3})
		x.putRows(c.put, &memories.Memory{ID: "m", Owner: "a"})
		e, m, run := x.extentOf(c.get), x.row(c.get, "m"), x.rowsAt(c.get, []uint64{0})
		if (e != nil) != c.want || (m != nil) != c.want || (run != nil) != c.want {
			t.Errorf("%s: extent %v, row %v, list %v", name, e, m, run)
		}
	}
}

// TestALogNeverGetsShorter: of two readers at one head, the one that saw less may put its
// extent or row last.
func TestALogNeverGetsShorter(t *testing.T) {
	t.Parallel()
	batch := func(size uint64) *batches.Batch { return &batches.Batch{Size: size} }
	for name, c := range map[string]struct {
		head fence.Head
		late *extent
		kept bool
	}{
		"fewer leaves":        {at(7), &extent{leaves: 4, newest: batch(4)}, false},
		"less is anchored":    {at(7), &extent{leaves: 6, newest: batch(3)}, false},
		"nothing is anchored": {at(7), &extent{leaves: 5}, false},
		"of an earlier head":  {at(6), &extent{leaves: 9, newest: batch(9)}, false},
		"more leaves":         {at(7), &extent{leaves: 6, newest: batch(4)}, true},
	} {
		x, r := NewTextCache(1<<20), Reader{Owner: "a", Head: at(7)}
		x.putExtent(r, &extent{leaves: 5, newest: batch(4)})
		x.putExtent(Reader{Owner: "a", Head: c.head}, c.late)
		if got := x.extentOf(r); got == nil || (got == c.late) != c.kept {
			t.Errorf("%s: %+v", name, got)
		}
	}
	x, r := NewTextCache(1<<20), Reader{Owner: "a", Head: at(7)}
	x.putRows(r, &memories.Memory{ID: "m", Owner: "a", Anchored: true}, &memories.Memory{ID: "n", Owner: "a", LeafIndex: 1, Retracted: true})
	x.putRows(r, &memories.Memory{ID: "m", Owner: "a"}, &memories.Memory{ID: "n", Owner: "a", LeafIndex: 1})
	if !x.row(r, "m").Anchored || !x.row(r, "n").Retracted {
		t.Error("a row lost an event")
	}
}

// TestTheCacheKeepsToItsBudget with rows, texts and words, and drops owners who were
// longest away. A read that began before its owner was dropped keeps nothing.
func TestTheCacheKeepsToItsBudget(t *testing.T) {
	t.Parallel()
	const budget = 100_000
	x := NewTextCache(budget)
	for i := range 1000 {
		r := Reader{Owner: events.Owner(fmt.Sprint(i % 7)), Head: at(1)}
		x.putRows(r, &memories.Memory{ID: fmt.Sprint(i), Owner: r.Owner, LeafIndex: uint64(i), Sealed: make([]byte, 500)})
		o, _ := x.chunks(r.Owner, uint64(i), uint64(i+1))
		x.put(r.Owner, o, &chunk{number: uint64(i), texts: make([]byte, 300), created: make([]uint32, 1)})
		if used := x.Bytes(); used > budget {
			t.Fatalf("%d bytes are kept", used)
		}
	}
	o, _ := x.chunks("0", 0, 1)
	x.Drop("0")
	x.put("0", o, &chunk{texts: make([]byte, 10), created: make([]uint32, 1)})
	if _, found := x.chunks("0", 0, 1); found[0] != nil {
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

// TestWhoAsksAgainAsksNoDatabase: a repeated request needs no query until something of the
// owner changes.
func TestWhoAsksAgainAsksNoDatabase(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	h.write(t, w, make([]string, 40)...)
	h.confirm(t, w, h.cut(t, w), 40)
	h.write(t, w, make([]string, 3)...)
	s, chance := h.service(1<<30), rand.New(rand.NewPCG(1, 1))
	questions := func(do func()) int64 {
		before := h.pool.Stat().AcquireCount()
		do()
		return h.pool.Stat().AcquireCount() - before
	}
	// Number of queries of the second request: nodes of the tree, and times, are not kept.
	for i, again := range []int64{0, 0, 0, 2, 1, 2, 1} {
		asking := askings(w, chance)[i]
		ask := func(head uint64) func() {
			return func() {
				t.Helper()
				if _, err := asking.ask(t.Context(), s, Reader{Owner: w.owner, Head: at(head)}); err != nil {
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
	s, r := h.service(1<<30), Reader{Owner: w.owner, Head: at(h.seq)}
	newest := w.root(4)
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
	s, head := h.service(1<<30), h.seq
	r := Reader{Owner: w.owner, Head: at(head)}
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
	s.Texts.Drop("") // or the row of before is kept
	proof, err := s.Prove(t.Context(), r, w.written[1].ID)
	if err != nil || proof.TxSignature == nil || proof.OnchainRoot == nil || *proof.OnchainRoot != w.root(3) {
		t.Errorf("a proof by a batch that came later: %+v, %v", proof, err)
	}
	if receipt, err := s.Receipt(t.Context(), r, w.written[1].ID); err != nil || receipt.Anchor == nil || receipt.Anchor.CommittedSize != 3 {
		t.Errorf("a receipt by a batch that came later: %+v, %v", receipt, err)
	}
	// Read models that replace these may be older.
	if _, err := h.pool.Exec(t.Context(), `DELETE FROM memories WHERE leaf_index > 0; DELETE FROM batches`); err != nil {
		t.Fatal(err)
	}
	s.Texts.Drop("")
	if _, err := s.extentWith(t.Context(), r, &memories.Memory{LeafIndex: 2}); !errors.Is(err, fence.ErrBehind) {
		t.Errorf("a leaf beyond the log: %v", err)
	}
	if _, err := s.extentWith(t.Context(), r, &memories.Memory{LeafIndex: 0, Anchored: true}); !errors.Is(err, fence.ErrBehind) {
		t.Errorf("an anchored leaf without a batch: %v", err)
	}
}
