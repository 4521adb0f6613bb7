package runner

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/projection"
)

// replayRecords is how many messages a replay commits at once at least, where
// there are so many.
const replayRecords = 10000

// Replayer applies parts of the log to a schema that no projector works on, by
// the very code that the projector runs.
type Replayer struct {
	Conn        *pgx.Conn // its search_path says which schema
	Log         eventlog.PartReader
	Projections []Projection // nil means Projections()
	Position    uint64       // the schema's checkpoint
	// Applied, if set, is called with the new position after each commit.
	Applied func(position uint64)

	replanAt uint64
}

// To applies the log up to and including a sequence. A crash leaves whole
// slices and their checkpoint.
func (r *Replayer) To(ctx context.Context, to uint64) error {
	if r.Projections == nil {
		r.Projections = Projections()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// One is applied, one waits, one is gathered: the log is read while the
	// database writes, and no more than three are in memory.
	gathered, failed := make(chan sized, 1), make(chan error, 1)
	go func() {
		defer close(gathered)
		failed <- r.read(ctx, to, gathered)
	}()
	for slice := range gathered {
		if err := r.apply(ctx, slice.Slice); err != nil {
			return err
		}
	}
	if err := <-failed; err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}

// read decodes the log and gathers what is to be committed at once.
func (r *Replayer) read(ctx context.Context, to uint64, out chan<- sized) error {
	subjects := make(map[string]events.Subject)
	var gathered sized
	return r.Log.Read(ctx, eventlog.ReadConfig{From: r.Position + 1, To: to}, func(raw eventlog.Slice) error {
		slice, err := decode(raw, subjects)
		if err != nil {
			return err
		}
		gathered.grow(slice)
		if len(gathered.Records) < replayRecords && gathered.bytes < defaultSliceBytes && gathered.Last < to {
			return nil
		}
		whole := gathered
		gathered = sized{}
		select {
		case out <- whole:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

func (r *Replayer) apply(ctx context.Context, slice projection.Slice) error {
	if err := write(ctx, r.Conn, r.Projections, r.Position, slice, slice.Last >= r.replanAt); err != nil {
		return fmt.Errorf("replay sequences %d to %d: %w", slice.First, slice.Last, err)
	}
	if r.Position = slice.Last; r.Position >= r.replanAt {
		r.replanAt = nextReplan(r.Position)
	}
	if r.Applied != nil {
		r.Applied(slice.Last)
	}
	return nil
}
