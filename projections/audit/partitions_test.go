package audit_test

import (
	"github.com/memory-ledger/ledger/events"

	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
)

// TestOneHalfStandsStill: an audit compares each half of the read models with the log up
// to that half's position, reports the part that it leaves out, and finds damage in both
// halves.
func TestOneHalfStandsStill(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	log := fixture.NewLog(t)
	start := func(run events.Partitions) (stop func() error) {
		t.Helper()
		r, err := projector.New(projector.Config{Projections: readmodel.All(), Pool: pool, Log: log, Partitions: run, Logger: fixture.Quiet()})
		if err != nil {
			t.Fatal(err)
		}
		return fixture.Running(t, r.Run)
	}
	lower, upper := events.Partitions{First: 0, End: 128}, events.Partitions{First: 128, End: 256}
	storyOf := func(run events.Partitions, after int) int {
		for n := after + 1; ; n++ {
			if run.Has(events.PartitionOf(fixture.NumberedActor(n).Owner)) {
				return n
			}
		}
	}
	first := [2]int{storyOf(lower, 0), storyOf(upper, 0)}
	late := storyOf(upper, first[1])
	writer := fixture.NumberedActor(storyOf(upper, late)) // writes before and after the stop
	writes := func(n int) (said []fixture.Message) {
		for range n {
			said = append(said, writer.Write(`{}`))
		}
		return said
	}
	log.Publish(t, slices.Concat(story(first[0]), writes(20), story(first[1]))...)
	start(lower)
	stop := start(upper)
	f, err := fence.New(pool, log, fence.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.WaitAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	said := slices.Concat(story(late), writes(5))
	log.Publish(t, slices.Concat(story(storyOf(lower, first[0])), said)...)
	head, err := log.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var stood projector.Checkpoint
	fixture.Eventually(t, 2*time.Minute, func() error {
		if stood, err = projector.ReadCheckpoint(t.Context(), pool); err == nil && stood.At(0) != head {
			err = fmt.Errorf("at %s of %d", stood, head)
		}
		return err
	})
	cfg := audit.Config{Log: log.Replayed(), Pool: pool, Patience: time.Millisecond}
	found, summary := verify(t, cfg)
	if len(found) != 0 || summary.Through != head || summary.Rows["checkpoint"] != 2 || summary.Owners != 4 || summary.Messages != head-uint64(len(said)) {
		t.Errorf("%v, %+v", found, summary)
	}
	if want := fmt.Sprintf("sequences %d to %d of partitions 80-ff", stood.At(255)+1, head); !strings.Contains(fmt.Sprint(summary.Incomplete), want) || summary.Good() {
		t.Errorf("%v does not say %s", summary.Incomplete, want)
	}
	for _, change := range []string{
		`UPDATE checkpoint SET stored_at = stored_at + interval '1 microsecond' WHERE first_partition = 128`,
		`UPDATE checkpoint SET stored_at = stored_at - interval '1 microsecond' WHERE first_partition = 0`,
		fmt.Sprintf(`UPDATE checkpoint SET seq = %d WHERE first_partition = 128`, head), // rows are missing
		`UPDATE checkpoint SET seq = seq - 1 WHERE first_partition = 128`,               // there are extra rows
		fmt.Sprintf(`UPDATE checkpoint SET seq = %d WHERE first_partition = 128`, head+5),
		fmt.Sprintf(`UPDATE checkpoint SET seq = %d WHERE first_partition = 0`, head+5), // no row shows that the log lost messages
		`UPDATE checkpoint SET stored_at = NULL WHERE first_partition = 0`,
	} {
		if _, err := pool.Exec(t.Context(), `CREATE TABLE kept AS TABLE checkpoint; `+change); err != nil {
			t.Fatal(err)
		}
		if found, _ := verify(t, cfg); len(found) == 0 {
			t.Errorf("%s: nothing is found", change)
		}
		if _, err := pool.Exec(t.Context(), `UPDATE checkpoint c SET seq = k.seq, stored_at = k.stored_at FROM kept k
			WHERE k.first_partition = c.first_partition; DROP TABLE kept`); err != nil {
			t.Fatal(err)
		}
	}
	damaged(t, pool, "memories", fmt.Sprintf(`DELETE FROM memories WHERE owner = '%s' AND leaf_index = 9`, writer.Owner), func() {
		if found, _ := verify(t, cfg); len(found) != 1 {
			t.Errorf("a row of the half that stands still: %v", found)
		}
	})
	if found, _ := verify(t, cfg); len(found) != 0 {
		t.Errorf("found %v", found)
	}
}
