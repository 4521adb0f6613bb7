package projector

import (
	"context"
	_ "embed" // for CheckpointSQL
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/schema"
)

// ErrIncomplete: the rows of the checkpoint do not cover every partition exactly once.
// The database refuses to commit such rows, so the table is damaged.
var ErrIncomplete = errors.New("the checkpoint does not cover the partitions")

// CheckpointSQL creates the checkpoint at sequence 0, in the first schema of search_path.
// It is for schemas that the read models' migrations do not create.
//
//go:embed checkpoint.sql
var CheckpointSQL string

// Checkpoint is the table checkpoint: how much of the log its schema's read models hold.
type Checkpoint struct {
	// Generation identifies a set of read models. Only positions of the same generation
	// can be compared.
	Generation string
	Vector
}

// ReadCheckpoint reads the checkpoint. In one transaction with other queries, it returns
// exactly the position that those queries reflect. With ErrIncomplete it also returns the
// rows that exist.
func ReadCheckpoint(ctx context.Context, q schema.Querier) (Checkpoint, error) {
	c, err := ReadCheckpointOf(ctx, q, events.AllPartitions, "")
	if err == nil && !c.Covers(events.AllPartitions) {
		err = fmt.Errorf("%w: %d rows: %s", ErrIncomplete, len(c.Vector), c.Vector)
	}
	return c, err
}

// ReadCheckpointOf reads the rows that cover any partition of a run, and returns them
// uncut. It appends the clause to the query, for a lock.
func ReadCheckpointOf(ctx context.Context, q schema.Querier, run events.Partitions, clause string) (Checkpoint, error) {
	var c Checkpoint
	rows, err := q.Query(ctx, `SELECT generation::text, first_partition, last_partition, seq, stored_at FROM checkpoint
		WHERE last_partition >= $1 AND first_partition < $2 ORDER BY first_partition `+clause, run.First, run.End)
	if err != nil {
		return c, fmt.Errorf("read checkpoint: %w", err)
	}
	var (
		generation string
		m          Mark
		stored     *time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&generation, &m.First, &m.End, &m.Seq, &stored}, func() error {
		if c.Generation != "" && c.Generation != generation {
			return fmt.Errorf("%w: two generations", ErrIncomplete)
		}
		c.Generation = generation
		mark := m
		mark.End++ // the table stores the last partition
		if stored != nil {
			mark.Stored = *stored
		}
		c.Vector = append(c.Vector, mark)
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("read checkpoint: %w", err)
	}
	return c, nil
}
