package batches_test

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/batches"
	"github.com/memory-ledger/ledger/projections/internal/world"
)

// stages of one batch: cut, submitted, failed, submitted again, confirmed.
type stages struct {
	cut       *events.BatchCut
	first     *events.BatchSubmitted
	failed    *events.BatchFailed
	second    *events.BatchSubmitted
	confirmed *events.BatchConfirmed
}

func newStages() stages {
	id, root := world.UUID(), world.Hash("root")
	sub := func(signature string, height uint64) *events.BatchSubmitted {
		return &events.BatchSubmitted{BatchID: id, Size: 5, Root: root, Signature: signature, Blockhash: "of " + signature,
			LastValidBlockHeight: height, Transaction: []byte(signature + "\x00")}
	}
	return stages{
		cut:   &events.BatchCut{BatchID: id, FromSize: 2, Size: 5, Root: root},
		first: sub("sig1", 10), failed: &events.BatchFailed{BatchID: id, Signature: "sig1", Reason: "expired \x00"}, second: sub("sig2", 20),
		confirmed: &events.BatchConfirmed{BatchID: id, Size: 5, Root: root, Signature: "sig2", Slot: 99,
			Cluster: "cluster", ProgramID: "program", Account: "account"},
	}
}

func TestABatchLivesThroughAFailure(t *testing.T) {
	t.Parallel()
	_, pool := world.Database(t)
	a, s := world.NewActor(), newStages()
	var at []events.Timestamp
	for i, c := range []struct {
		say   events.Data
		state batches.State
		open  int
	}{
		{s.cut, batches.Cut, 1}, {s.first, batches.Submitted, 1}, {s.failed, batches.Failed, 0},
		{s.second, batches.Submitted, 1}, {s.confirmed, batches.Confirmed, 0},
		// A confirmed batch stays confirmed, whatever is said of it later.
		{s.failed, batches.Confirmed, 0}, {s.cut, batches.Confirmed, 0},
	} {
		m := a.Say(c.say)
		at = append(at, m.Events[0].Time)
		world.Apply(t, pool, world.Slice(uint64(i+1), m), batches.Projection{})
		b, found, err := batches.ByID(t.Context(), pool, s.cut.BatchID)
		if err != nil || !found || b.State != c.state {
			t.Errorf("after %d: %+v, %v, %v", i, b, found, err)
		}
		if open, err := batches.Open(t.Context(), pool); err != nil || len(open) != c.open {
			t.Errorf("after %d: %d open, %v", i, len(open), err)
		}
	}
	b, found, err := latestConfirmed(t, pool, a.Owner)
	if err != nil || !found || b.FromSize != 2 || b.Size != 5 || b.Root != s.cut.Root || b.Signature != "sig2" || b.Blockhash != "of sig2" ||
		b.LastValidBlockHeight != 20 || !bytes.Equal(b.Transaction, s.second.Transaction) || b.Slot != 99 || b.Cluster != "cluster" ||
		b.ProgramID != "program" || b.Account != "account" || *b.ConfirmedAt != at[4] || *b.CutAt != at[0] || *b.SubmittedAt != at[3] ||
		b.Failure != "expired \x00" || *b.FailedAt != at[2] || b.Seq != 5 {
		t.Errorf("confirmed: %+v, %v, %v", b, found, err)
	}
	attempts, err := batches.Attempts(t.Context(), pool, s.cut.BatchID)
	if err != nil || len(attempts) != 2 || attempts[0].Signature != "sig1" || attempts[0].Failure != "expired \x00" || attempts[0].FailedAt == nil ||
		attempts[1].Signature != "sig2" || attempts[1].FailedAt != nil || attempts[1].LastValidBlockHeight != 20 {
		t.Errorf("attempts: %+v, %v", attempts, err)
	}
}

func latestConfirmed(t *testing.T, pool *pgxpool.Pool, owner events.Owner) (b batches.Batch, found bool, err error) {
	t.Helper()
	var questions pgx.Batch
	batches.QueueLatestConfirmed(&questions, owner, &b, &found)
	err = pool.SendBatch(t.Context(), &questions).Close()
	return b, found, err
}

func TestTheLatestConfirmedIsTheLargest(t *testing.T) {
	t.Parallel()
	_, pool := world.Database(t)
	a, other := world.NewActor(), world.NewActor()
	confirm := func(a *world.Actor, size uint64) world.Message {
		id := world.UUID()
		return a.Say(&events.BatchCut{BatchID: id, Size: size}, &events.BatchConfirmed{BatchID: id, Size: size, Signature: id})
	}
	world.Apply(t, pool, world.Slice(1, confirm(a, 7), confirm(a, 3), confirm(other, 100),
		a.Say(&events.BatchCut{BatchID: world.UUID(), Size: 9})), batches.Projection{})
	if b, found, err := latestConfirmed(t, pool, a.Owner); err != nil || !found || b.Size != 7 {
		t.Errorf("%+v, %v, %v", b, found, err)
	}
	if list, err := batches.List(t.Context(), pool, a.Owner); err != nil || len(list) != 3 || list[0].Size != 3 || list[2].Size != 9 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestAFailureOfNothingLeavesNothing(t *testing.T) {
	t.Parallel()
	_, pool := world.Database(t)
	a := world.NewActor()
	id := world.UUID()
	world.Apply(t, pool, world.Slice(1, a.Say(&events.BatchFailed{BatchID: id, Signature: "s", Reason: "r"})), batches.Projection{})
	if _, found, err := batches.ByID(t.Context(), pool, id); found || err != nil {
		t.Error(found, err)
	}
}
