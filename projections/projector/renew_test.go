package projector_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
	"github.com/memory-ledger/ledger/projections/readmodel"
	"github.com/memory-ledger/ledger/projections/schema"
)

// TestTablesAreRenewed: if Renew returns steps for a session's error, they empty the
// tables together with the checkpoint, and the log is projected from its first message.
func TestTablesAreRenewed(t *testing.T) {
	t.Parallel()
	_, pool, log := empty(t)
	log.Publish(t, fixture.NewHistory(60, 4).Messages(20)...)
	var empty []projector.Step
	for _, p := range readmodel.All() {
		for _, table := range p.Tables() {
			empty = append(empty, projector.Step{SQL: `DELETE FROM ` + table})
		}
	}
	errStale := errors.New("what the tables hold is stale")
	var began, renewed atomic.Int32
	_, stop := project(t, pool, log, func(c *projector.Config) {
		c.Work = func(ctx context.Context) error {
			if began.Add(1) == 1 {
				return errStale
			}
			<-ctx.Done()
			return nil
		}
		c.Renew = func(err error) []projector.Step {
			if !errors.Is(err, errStale) {
				return nil
			}
			renewed.Add(1)
			return empty
		}
	})
	fixture.Eventually(t, 2*time.Minute, func() error {
		if began.Load() != 2 {
			return errors.New("the work has not begun again")
		}
		return nil
	})
	caughtUp(t, pool, log)
	if n := renewed.Load(); n != 1 {
		t.Errorf("renewed %d times", n)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestCheckpointSQL: CheckpointSQL makes the same checkpoint as the migrations.
func TestCheckpointSQL(t *testing.T) {
	t.Parallel()
	_, pool := fixture.Database(t)
	if _, err := pool.Exec(t.Context(), `CREATE SCHEMA other; SET search_path = other; `+projector.CheckpointSQL+`; RESET search_path`); err != nil {
		t.Fatal(err)
	}
	var made [2][]string
	for i, name := range []string{schema.Live, "other"} {
		rows, err := pool.Query(t.Context(), `
			SELECT column_name || ' ' || data_type || ' ' || is_nullable || ' ' || coalesce(column_default, '') FROM information_schema.columns
				WHERE table_schema = $1 AND table_name = 'checkpoint'
			UNION ALL SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = ($1 || '.checkpoint')::regclass AND contype <> 'n'
			UNION ALL SELECT array_to_string(reloptions, ',') FROM pg_class WHERE oid = ($1 || '.checkpoint')::regclass
			UNION ALL SELECT proname || pg_get_function_arguments(oid) || prosrc FROM pg_proc
				WHERE pronamespace = $1::regnamespace AND proname = 'advance_checkpoint'
			ORDER BY 1`, name)
		if err != nil {
			t.Fatal(err)
		}
		if made[i], err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			t.Fatal(err)
		}
	}
	if len(made[0]) < 7 || !slices.Equal(made[0], made[1]) {
		t.Errorf("migrations make\n%q\nCheckpointSQL makes\n%q", made[0], made[1])
	}
}
