package projector

import (
	"context"
	_ "embed" // for CheckpointSQL
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/projections/schema"
)

// CheckpointSQL creates the checkpoint at sequence 0, in the first schema of search_path.
// It is for schemas that the read models' migrations do not create.
//
//go:embed checkpoint.sql
var CheckpointSQL string

// Checkpoint is the row of the table checkpoint: how much of the log its schema's read
// models hold.
type Checkpoint struct {
	// Generation identifies a set of read models. Only positions of the same generation
	// can be compared.
	Generation string
	Seq        uint64    // newest sequence that is projected
	Stored     time.Time // when the log stored the message at Seq; zero if unknown
}

// ReadCheckpoint reads the checkpoint. In one transaction with other queries, it returns
// exactly the position that those queries reflect.
func ReadCheckpoint(ctx context.Context, q schema.Querier) (c Checkpoint, err error) {
	var stored *time.Time
	if err = q.QueryRow(ctx, `SELECT generation::text, seq, stored_at FROM checkpoint`).Scan(&c.Generation, &c.Seq, &stored); err != nil {
		return c, fmt.Errorf("read checkpoint: %w", err)
	}
	if stored != nil {
		c.Stored = *stored
	}
	return c, nil
}
