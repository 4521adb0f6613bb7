package rebuild_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// indexes returns the indexes and constraints of the live schema, as PostgreSQL prints
// them.
func (s *stage) indexes() []string {
	s.t.Helper()
	rows, err := s.pool.Query(s.t.Context(), `SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indexrelid
			WHERE c.relnamespace = current_schema()::regnamespace AND indisvalid
		UNION ALL SELECT conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid) FROM pg_constraint
			WHERE connamespace = current_schema()::regnamespace
		ORDER BY 1`)
	must(s.t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(all) < 20 {
		s.t.Fatalf("%d, %v", len(all), err)
	}
	return all
}

// The indexes that a rebuild drops while it fills the new tables exist again at the end.
func TestEveryIndexIsThereAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
	t.Parallel()
	s := newStage(t)
	s.fill(2, 20)
	was := s.indexes()
	run(t, s.config())
	if is := s.indexes(); !slices.Equal(is, was) {
		t.Errorf("%q, was %q", is, was)
	}
	// The live schema is not marked as one that a rebuild may drop.
	var said *string
	if err := s.pool.QueryRow(t.Context(), `SELECT obj_description('ledger'::regnamespace, 'pg_namespace')`).Scan(&said); err != nil || said != nil {
		t.Errorf("the schema says %v, %v", said, err)
	}
}
