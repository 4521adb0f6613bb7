package batches_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel/batches"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// stages has the events of one batch: cut, submitted, failed, submitted again, confirmed.
type stages struct {
	cut       *events.BatchCut
	first     *events.BatchSubmitted
	failed    *events.BatchFailed
	second    *events.BatchSubmitted
	confirmed *events.BatchConfirmed
}

func newStages() stages {
	id, root := fixture.UUID(), fixture.Hash("root")
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
	_, pool := fixture.Database(t)
	a, s := fixture.NewActor(), newStages()
	var at []events.Timestamp
	for i, c := range []struct {
		say   events.Data
		state string
	}{
		{s.cut, "cut"}, {s.first, "submitted"}, {s.failed, "failed"}, {s.second, "submitted"}, {s.confirmed, "confirmed"},
		// A confirmed batch stays confirmed; later events do not change it.
		{s.failed, "confirmed"}, {s.cut, "confirmed"},
	} {
		m := a.Say(c.say)
		at = append(at, m.Events[0].Time)
		fixture.Apply(t, pool, fixture.Slice(uint64(i+1), m), batches.Projection)
		if b, found, err := batches.ByID(t.Context(), pool, s.cut.BatchID); err != nil || !found || b.ID != s.cut.BatchID || b.Size != 5 {
			t.Errorf("after %d: %+v, %v, %v", i, b, found, err)
		}
		if state := rowOf(t, pool, s.cut.BatchID).State; state != c.state {
			t.Errorf("after %d: %s", i, state)
		}
	}
	b, found, err := latestConfirmed(t, pool, a.Owner)
	if err != nil || !found || b.ID != s.cut.BatchID || b.Size != 5 || b.Root != s.cut.Root || b.Signature != "sig2" || b.Slot != 99 ||
		b.Cluster != "cluster" || b.ProgramID != "program" || b.Account != "account" || *b.ConfirmedAt != at[4] {
		t.Errorf("confirmed: %+v, %v, %v", b, found, err)
	}
	wantRow := row{"confirmed", 2, "of sig2", 20, s.second.Transaction, []byte("expired \x00"), at[0].Time(), at[3].Time(), at[2].Time(), 5}
	if got := rowOf(t, pool, s.cut.BatchID); !reflect.DeepEqual(got, wantRow) {
		t.Errorf("the row is %+v, want %+v", got, wantRow)
	}
	type attempt struct {
		Signature string
		Height    uint64
		Failed    bool
		Failure   []byte
	}
	rows, err := pool.Query(t.Context(), `SELECT signature, last_valid_block_height, failed_at IS NOT NULL, failure
		FROM batch_attempts WHERE batch_id = $1 ORDER BY seq, signature`, s.cut.BatchID)
	if err != nil {
		t.Fatal(err)
	}
	attempts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[attempt])
	want := []attempt{{"sig1", 10, true, []byte("expired \x00")}, {"sig2", 20, false, nil}}
	if err != nil || !reflect.DeepEqual(attempts, want) {
		t.Errorf("attempts: %+v, %v", attempts, err)
	}
}

// row holds the columns that nothing but the audit reads.
type row struct {
	State                        string
	FromSize                     uint64
	Blockhash                    string
	LastValidBlockHeight         uint64
	Transaction, Failure         []byte
	CutAt, SubmittedAt, FailedAt time.Time
	Seq                          uint64
}

func rowOf(t *testing.T, pool *pgxpool.Pool, batchID string) row {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT state, from_size, coalesce(blockhash, ''), coalesce(last_valid_block_height, 0), transaction, failure,
		cut_at, coalesce(submitted_at, 'epoch'), coalesce(failed_at, 'epoch'), seq FROM batches WHERE id = $1`, batchID)
	if err != nil {
		t.Fatal(err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[row])
	if err != nil {
		t.Fatal(err)
	}
	r.CutAt, r.SubmittedAt, r.FailedAt = r.CutAt.UTC(), r.SubmittedAt.UTC(), r.FailedAt.UTC()
	return r
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
	_, pool := fixture.Database(t)
	a, other := fixture.NewActor(), fixture.NewActor()
	confirm := func(a *fixture.Actor, size uint64) fixture.Message {
		id := fixture.UUID()
		return a.Say(&events.BatchCut{BatchID: id, Size: size}, &events.BatchConfirmed{BatchID: id, Size: size, Signature: id})
	}
	fixture.Apply(t, pool, fixture.Slice(1, confirm(a, 7), confirm(a, 3), confirm(other, 100),
		a.Say(&events.BatchCut{BatchID: fixture.UUID(), Size: 9})), batches.Projection)
	if b, found, err := latestConfirmed(t, pool, a.Owner); err != nil || !found || b.Size != 7 {
		t.Errorf("%+v, %v, %v", b, found, err)
	}
}

func TestAFailureOfNothingLeavesNothing(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	a := fixture.NewActor()
	id := fixture.UUID()
	fixture.Apply(t, pool, fixture.Slice(1, a.Say(&events.BatchFailed{BatchID: id, Signature: "s", Reason: "r"})), batches.Projection)
	if _, found, err := batches.ByID(t.Context(), pool, id); found || err != nil {
		t.Error(found, err)
	}
}
