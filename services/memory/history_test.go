package memory

import (
	"context"
	"fmt"
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
)

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
