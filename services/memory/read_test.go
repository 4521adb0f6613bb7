package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/anchoring/chainview"
	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/events/verify"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/events/verify/leaf"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/projections/tree"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/keystore/keystoretest"
	"github.com/memory-ledger/ledger/services/recall"
)

// words are the vocabulary of texts and queries.
var words = []string{
	"cat", "Cat", "CAT", "sleeps", "ſleeps", "Kelvin", "\u212aelvin", "Straße", "schläft", "SCHLÄFT", "σίσυφος", "ΣΊΣΥΦΟΣ",
	"日本語", "дом", "ДОМ", "\x00", "🐈", " ", "1", "on the warm chair",
}

func text(chance *rand.Rand) string {
	var b strings.Builder
	for range 1 + chance.IntN(12) {
		b.WriteString(words[chance.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.String()
}

// TestSearchFindsWhatWasWritten: a search returns exactly the memories that contain the
// query, as they were written. The slices they arrived in and the cache make no difference.
func TestSearchFindsWhatWasWritten(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(rand.Uint64(), 7))
	h := newHistory(t)
	w, other := h.writer(t), h.writer(t)
	services := map[string]*Service{"all kept": h.service(1 << 30), "some kept": h.service(60_000), "nothing kept": h.service(0)}
	for len(w.written) < 1500 {
		texts := make([]string, 1+chance.IntN([]int{3, 90, 600}[chance.IntN(3)]))
		for i := range texts {
			texts[i] = text(chance)
		}
		h.write(t, w, texts...)
		h.write(t, other, "cat", "not yours")
		for name, s := range services {
			if chance.IntN(3) == 0 {
				continue // its cache is behind
			}
			query := words[chance.IntN(len(words))]
			if chance.IntN(3) == 0 {
				query += " " + words[chance.IntN(len(words))]
			}
			found, size, err := searchAll(t, s, w.owner, query)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var want []View
			has := regexp.MustCompile("(?i)" + regexp.QuoteMeta(query))
			for _, v := range w.written[:size] {
				if has.MatchString(v.Content) {
					want = append(want, v)
				}
			}
			if len(found) != len(want) {
				t.Fatalf("%s: %q in %d memories: %d found, %d have it", name, query, size, len(found), len(want))
			}
			for i := range found {
				if !reflect.DeepEqual(found[i], want[i]) {
					t.Fatalf("%s: %q in %d memories:\n got %+v\nwant %+v", name, query, size, found[i], want[i])
				}
			}
		}
	}
}

// TestEverySelectionYieldsEachOnce: each selection, whole or in pages, yields every match
// once, in order, and never holds many, however slowly its client reads. The ids of corrections count.
func TestEverySelectionYieldsEachOnce(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	h.write(t, w, slices.Repeat([]string{"needle", "needle", "hay"}, pieceLeaves/2)...)
	const from = 100
	s := h.service(1 << 30)
	for _, order := range []Order{Oldest, Newest, Occurred} {
		for _, query := range []string{"", "needle", "hay"} {
			for _, filter := range []memories.Filter{{}, {From: w.written[from].CreatedAt.Time()}} {
				for _, limit := range []int{0, 2500} {
					var want, got []uint64
					for _, v := range w.written {
						if (query == "" || v.Content == query) && (filter.All() || v.LeafIndex >= from) {
							want = append(want, v.LeafIndex)
						}
					}
					if order != Oldest {
						slices.Reverse(want)
					}
					sel, held := Selection{Query: query, Order: order, Filter: filter, Limit: limit}, 0
					for first := true; first || sel.Cursor != ""; first = false {
						slots := 0
						picked, err := s.Select(t.Context(), Reader{Owner: w.owner}, sel, func() bool { slots++; return false })
						if must(t, err); !filter.All() && slots < 2 {
							t.Errorf("%s %q: many leaves are filtered in one time slot", order, query)
						}
						for picked.More() {
							must(t, picked.Next(t.Context(), func(v *View) error {
								held = max(held, cap(picked.hits))
								got = append(got, v.LeafIndex)
								return nil
							}))
						}
						sel.Cursor = picked.NextCursor
					}
					if !slices.Equal(got, want) {
						t.Errorf("%s %q, filtered: %v, limit %d: %d leaves instead of %d, or in another order", order, query, !filter.All(), limit, len(got), len(want))
					}
					if held > 3*pieceLeaves {
						t.Errorf("%s %q: holds %d hits", order, query, held)
					}
				}
			}
		}
	}
	must(t, errorOf(h.pool.Exec(t.Context(), `INSERT INTO corrections (owner, leaf_index, by_leaf, position) SELECT owner, 0, leaf_index, 0 FROM memories WHERE owner = $1 AND leaf_index > 0`, w.owner)))
	p, err := s.Select(t.Context(), Reader{Owner: w.owner}, Selection{Order: Oldest}, nil)
	must(t, err)
	if _, bytes, err := p.read(t.Context(), []recall.Hit{{Leaf: 0}}); err != nil || bytes < 36*len(w.written) {
		t.Errorf("a memory that all others correct has %d bytes: %v", bytes, err)
	}
	must(t, p.Next(t.Context(), func(*View) error { return ErrEnough }))
	if p.rows != 2 {
		t.Errorf("%d rows are read next, after one was enough", p.rows)
	}
}

// TestNothingFollows a cursor beyond the log, which a client made up, or a query that is
// longer than any text.
func TestNothingFollows(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	longest := strings.Repeat("x", MaxContentBytes)
	h.write(t, w, "a", "b", longest)
	nothing := func(sel Selection) bool {
		t.Helper()
		picked, err := h.service(0).Select(t.Context(), Reader{Owner: w.owner}, sel, nil)
		must(t, err)
		found, err := collect(t.Context(), picked)
		return err == nil && len(found) == 0
	}
	for _, leaf := range []string{"2", "3", "4", "1000", "9223372036854775807"} {
		for _, query := range []string{"", "b"} {
			if !nothing(Selection{Query: query, Order: Oldest, Limit: 5, Cursor: "o" + leaf}) {
				t.Errorf("%q: something follows leaf %s", query, leaf)
			}
		}
	}
	if nothing(Selection{Query: longest, Order: Oldest}) || !nothing(Selection{Query: longest + "x", Order: Oldest}) {
		t.Error("the longest query")
	}
}

// TestMuchComesALittleAtATime: the bytes that a list or a search yields at once are
// bounded, and a search of long texts gives its time slot back between pieces.
func TestMuchComesALittleAtATime(t *testing.T) {
	slow(t)
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	h.write(t, w, slices.Repeat([]string{strings.Repeat("x", MaxContentBytes)}, 60)...)
	s := h.service(0)
	for _, query := range []string{"", "X"} {
		p, err := s.Select(t.Context(), Reader{Owner: w.owner}, Selection{Query: query, Order: Oldest}, nil)
		must(t, err)
		read := 0
		for first := true; p.More(); first = false {
			bytes := 0
			must(t, p.Next(t.Context(), func(v *View) error {
				read++
				bytes += len(v.Content)
				return nil
			}))
			if !first && bytes > pieceBytes+MaxContentBytes {
				t.Errorf("%q: %d bytes at once", query, bytes)
			}
		}
		if read != 60 {
			t.Errorf("%q: %d of 60", query, read)
		}
	}
	s = h.service(1 << 30)
	for range 2 { // the second one finds the words in the cache
		slots := 0
		p, err := s.Select(t.Context(), Reader{Owner: w.owner}, Selection{Query: "x*", Ranked: true, Order: Relevance, Limit: 60}, func() bool { slots++; return false })
		if must(t, err); p.ranked != 60 || slots < 60*MaxContentBytes/(indexBytes+MaxContentBytes) {
			t.Errorf("%d were ranked in %d time slots", p.ranked, slots)
		}
	}
}

// history is a set of read models made by the projections, and the events they were made
// from.
type history struct {
	pool *pgxpool.Pool
	keys *keystore.Store
	seq  uint64
}

// writer is an owner of a history.
type writer struct {
	owner                 events.Owner
	key                   *keystore.OwnerKey
	version, chainVersion int

	written []View // without batches
}

func newHistory(t testing.TB) *history {
	t.Helper()
	url := pgtest.Database(t)
	pool, err := schema.OpenPool(t.Context(), url, schema.Live, 8)
	must(t, err)
	t.Cleanup(pool.Close)
	must(t, schema.Migrate(t.Context(), pool))
	return &history{pool: pool, keys: keystoretest.Start(t)}
}

func (h *history) writer(t testing.TB) *writer {
	t.Helper()
	w := &writer{owner: logtest.Owner()}
	var err error
	w.key, err = h.keys.FindOrCreate(t.Context(), w.owner, 0, nil)
	must(t, err)
	return w
}

// write applies a slice with one memory for each text.
func (h *history) write(t testing.TB, w *writer, texts ...string) {
	t.Helper()
	var records []projector.Record
	for _, text := range texts {
		w.version++
		n := len(w.written)
		id := uuid.Must(uuid.NewV7())
		v := View{
			ID: id.String(), Content: text, Metadata: jsontext.Value(fmt.Sprintf(`{"n":%d}`, n)),
			LeafIndex: uint64(n), salt: events.SaltOwner,
			CreatedAt: events.At(time.UnixMilli(1_800_000_000_000 + int64(h.seq) + int64(len(records)) + 1)),
		}
		secret, err := w.key.LeafSecret(v.salt, nil)
		must(t, err)
		v.LeafHash, err = leaf.Commit(secret, leaf.Memory{Content: text, Metadata: canonical.Trusted(v.Metadata), Owner: w.owner})
		must(t, err)
		sealed, sealing := w.key.Seal(v.LeafIndex, v.ID, text)
		w.written = append(w.written, v)
		records = append(records, projector.Record{Family: events.FamilyLedger, Owner: w.owner, Events: []events.Event{{
			Owner: w.owner, OwnerVersion: w.version, Time: v.CreatedAt,
			Data: &events.MemoryWritten{MemoryID: v.ID, LeafIndex: v.LeafIndex, LeafHash: v.LeafHash, Metadata: v.Metadata, Sealed: sealed, Salt: events.SaltOwner, Sealing: sealing},
		}}})
	}
	h.apply(t, records...)
}

// cut applies a batch over everything that w wrote, which is about to be committed, and
// returns its id.
func (h *history) cut(t testing.TB, w *writer) string {
	t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	h.chain(t, w, &events.BatchCut{BatchID: id, Size: uint64(len(w.written)), Root: w.root(len(w.written))})
	return id
}

// root returns the root of the first leaves.
func (w *writer) root(size int) events.Hash {
	frontier := verify.NewTree()
	for _, m := range w.written[:size] {
		frontier.Append(m.LeafHash)
	}
	return frontier.Root()
}

// confirm applies the confirmation of a batch of that size.
func (h *history) confirm(t testing.TB, w *writer, id string, size int) {
	t.Helper()
	h.chain(t, w, &events.BatchConfirmed{BatchID: id, Size: uint64(size), Root: w.root(size), Signature: "of " + id, Slot: 1})
}

func (h *history) chain(t testing.TB, w *writer, data events.Data) {
	t.Helper()
	w.chainVersion++
	h.apply(t, projector.Record{Family: events.FamilyChain, Owner: w.owner, Events: []events.Event{{
		Owner: w.owner, OwnerVersion: w.chainVersion, Time: events.At(time.UnixMilli(1_800_000_000_000)), Data: data,
	}}})
}

// apply applies a slice.
func (h *history) apply(t testing.TB, records ...projector.Record) {
	t.Helper()
	slice := projector.Slice{First: h.seq + 1, Records: records}
	for i := range records {
		h.seq++
		records[i].Seq = h.seq
	}
	slice.Last = h.seq
	steps := projector.NewWriter(h.pool)
	for _, p := range []projector.Projection{owners.Projection{}, memories.Projection{}, batches.Projection, tree.Projection{}} {
		must(t, p.Apply(t.Context(), steps, slice))
	}
	must(t, pgx.BeginFunc(t.Context(), h.pool, func(tx pgx.Tx) error {
		for _, s := range steps.Steps() {
			var err error
			if s.Table != "" {
				_, err = tx.CopyFrom(t.Context(), pgx.Identifier{s.Table}, s.Columns, s.Rows)
			} else {
				_, err = tx.Exec(t.Context(), s.SQL, s.Args...)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// service returns a service on the history with a cache of that many bytes.
func (h *history) service(cache int64) *Service {
	return New(Config{Keys: h.keys, Pool: h.pool, Now: time.Now, Texts: NewTextCache(cache), Slots: NewFairScheduler(), LastSeen: func(chainview.Account) *chainview.Seen { return nil }})
}

// at returns a head of the first read models that a process sees.
func at(seq uint64) fence.Head { return fence.Head{Seq: seq} }

// collect returns the memories of a selection.
func collect(ctx context.Context, p *Picked) (views []View, err error) {
	for p.More() && err == nil {
		err = p.Next(ctx, func(v *View) error {
			views = append(views, *v)
			return nil
		})
	}
	return views, err
}

// searchAll returns the results of a search, and how many leaves it searched.
func searchAll(t testing.TB, s *Service, owner events.Owner, query string) (found []View, size uint64, err error) {
	p, err := s.Select(t.Context(), Reader{Owner: owner}, Selection{Query: query, Order: Oldest}, nil)
	if err != nil {
		return nil, 0, err
	}
	found, err = collect(t.Context(), p)
	return found, p.Size(), err
}
