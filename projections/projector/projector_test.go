package projector_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/projections/readmodel/owners"
	"github.com/memory-ledger/ledger/projections/tree"
)

func TestAMemoryIsReadBack(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	r, stop := project(t, pool, log)
	a := fixture.NewActor()
	user := fixture.UUID()
	a.Append(t, log, &events.OwnerRegistered{UserID: user},
		&events.SessionIssued{SessionID: fixture.UUID(), Audience: events.AudienceCore, ExpiresAt: events.At(time.Now())})
	written, seq := a.AppendMemory(t, log, `{"a":"\u0000"}`)
	caughtUp(t, pool, log)

	owner, found, err := owners.Find(t.Context(), pool, a.Owner)
	if err != nil || !found || owner.UserID != user || owner.LeafCount != 1 || owner.Version != 2 || owner.LastSeq != seq {
		t.Errorf("owner %+v, %v, %v", owner, found, err)
	}
	m, found, err := memories.ByID(t.Context(), pool, a.Owner, written.MemoryID)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	if m.Metadata.String() != `{"a":"\u0000"}` || m.LeafHash != written.LeafHash || string(m.Sealed) != string(written.Sealed) || m.BatchID != nil || m.Anchored {
		t.Errorf("memory %+v", m)
	}
	proof, err := tree.Inclusion(t.Context(), pool, a.Owner, 0, 1)
	if err != nil || proof.Root != written.LeafHash {
		t.Errorf("proof %+v, %v", proof, err)
	}
	ready(t, r)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if s := r.Status(); s.State != projector.Stopped || s.Position != 2 {
		t.Errorf("status %+v", s)
	}
}

func TestATreeIsProven(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	const leaves = 1200
	a := fixture.NewActor()
	batch := make([]fixture.Message, 0, leaves/10)
	for range leaves / 10 {
		data := make([]events.Data, 10)
		for i := range data {
			data[i] = a.Memory(`{}`)
		}
		batch = append(batch, a.Say(data...))
	}
	log.Publish(t, batch...)
	project(t, pool, log)
	caughtUp(t, pool, log)
	hashes := make([]events.Hash, leaves)
	for i := range hashes {
		hashes[i] = fixture.LeafHash(a.Owner, uint64(i))
	}
	for _, size := range []uint64{1, 255, 256, 257, 511, leaves} {
		t.Run(fmt.Sprint(size), func(t *testing.T) { checkTree(t, pool, a.Owner, hashes[:size]) })
	}
}

func checkTree(t *testing.T, pool *pgxpool.Pool, owner events.Owner, leaves []events.Hash) {
	t.Helper()
	ctx, size := context.Background(), uint64(len(leaves))
	root, err := tree.Root(ctx, pool, owner, size)
	if err != nil || root != tree.RootOf(leaves) {
		t.Errorf("root %s, %v", root, err)
	}
	for _, index := range []uint64{0, size / 3, size - 1} {
		got, err := tree.Inclusion(ctx, pool, owner, index, size)
		want, _ := tree.InclusionOf(leaves, index, size)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) || got.Root != root {
			t.Errorf("inclusion of %d: %v", index, err)
		}
	}
	for _, from := range []uint64{0, 1, size / 2, size} {
		got, err := tree.Consistency(ctx, pool, owner, from, size)
		want, _ := tree.ConsistencyOf(leaves, from, size)
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("consistency from %d: %v", from, err)
		}
	}
}

func head(t testing.TB, log projector.Log) uint64 {
	t.Helper()
	seq, err := log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seq
}
