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

// ErrIncomplete: the rows of the checkpoint do not speak of every partition
// once. The database refuses to commit that, so the table is damaged.
var ErrIncomplete = errors.New("the checkpoint does not cover the partitions")

// CheckpointSQL makes the checkpoint in the schema at the head of search_path, at
// sequence 0. It is for schemas that the migrations of the read models do not make.
//
//go:embed checkpoint.sql
var CheckpointSQL string

// Checkpoint is the table of that name: how far its schema's read models hold
// the log.
type Checkpoint struct {
	// Generation tells one set of read models from another. Positions are
	// comparable within one only.
	Generation string
	Vector
}

// ReadCheckpoint reads the checkpoint. Read in one transaction with other queries it says
// exactly what they reflect. With ErrIncomplete it returns the rows that there
// are.
func ReadCheckpoint(ctx context.Context, q schema.Querier) (Checkpoint, error) {
	c, err := ReadCheckpointOf(ctx, q, events.AllPartitions, "")
	if err == nil && !c.Covers(events.AllPartitions) {
		err = fmt.Errorf("%w: %d rows: %s", ErrIncomplete, len(c.Vector), c.Vector)
	}
	return c, err
}

// ReadCheckpointOf reads the rows that speak of any partition of a run, whole. The clause
// comes last in the query, for a lock.
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
		mark.End++ // the table names the last
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
