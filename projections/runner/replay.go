package runner

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/position"
	"github.com/memory-ledger/ledger/projections/projection"
)

// replayRecords is how many messages a replay commits at once at least, where
// there are so many.
const replayRecords = 10000

// Replayer applies parts of the log to a schema that no projector works on, by
// the very code that the projector runs.
type Replayer struct {
	Conn *pgx.Conn // its search_path says which schema
	// Applied, if set, is called after each commit with the newest sequence that
	// was read.
	Applied func(seq uint64)

	log         eventlog.PartReader
	projections []Projection
	at          position.Checkpoint
	replanAt    uint64
}

// NewReplayer returns a replayer that goes on where the schema is.
func NewReplayer(ctx context.Context, conn *pgx.Conn, log eventlog.PartReader, projections []Projection) (*Replayer, error) {
	at, err := position.Read(ctx, conn)
	if err != nil {
		return nil, err
	}
	return &Replayer{Conn: conn, log: log, projections: projections, at: at}, nil
}

// At returns how far the schema is.
func (r *Replayer) At() position.Vector { return r.at.Vector }

// To applies the log up to and including a position: of each partition what it
// lacks. A partition that is further stays there. A crash leaves whole slices
// and their checkpoint.
func (r *Replayer) To(ctx context.Context, want position.Vector) error {
	// From one of the position's sequences to the next, so that a row of the
	// checkpoint never stands but where a slice ended.
	for _, to := range want.Steps() {
		part := want.Capped(to)
		if r.at.Reaches(part) {
			continue
		}
		if err := r.upTo(ctx, part, to); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replayer) upTo(ctx context.Context, want position.Vector, to uint64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// One is applied, one waits, one is gathered: the log is read while the
	// database writes, and no more than three are in memory.
	gathered, failed := make(chan sized, 1), make(chan error, 1)
	have := r.at.Vector
	go func() {
		defer close(gathered)
		failed <- r.read(ctx, have, want, to, gathered)
	}()
	for slice := range gathered {
		if err := r.apply(ctx, want, slice.Slice); err != nil {
			return err
		}
	}
	if err := <-failed; err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}

// read decodes what is wanted of the log and gathers what is to be committed at
// once.
func (r *Replayer) read(ctx context.Context, have, want position.Vector, to uint64, out chan<- sized) error {
	d := decoder{wants: func(p int, seq uint64) bool { return have.Wants(p, seq) && seq <= want.At(p) }}
	var gathered sized
	return r.log.Read(ctx, eventlog.ReadConfig{From: have.Next(want), To: to}, func(raw eventlog.Slice) error {
		slice, err := d.decode(raw)
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

func (r *Replayer) apply(ctx context.Context, want position.Vector, slice projection.Slice) error {
	a := advance{r.at.Generation, r.at.Vector, r.at.Toward(want, slice.Last, slice.Stored)}
	if err := write(ctx, r.Conn, r.projections, a, slice, slice.Last >= r.replanAt); err != nil {
		return fmt.Errorf("replay sequences %d to %d: %w", slice.First, slice.Last, err)
	}
	r.at.Vector = a.to
	if slice.Last >= r.replanAt {
		r.replanAt = nextReplan(slice.Last)
	}
	if r.Applied != nil {
		r.Applied(slice.Last)
	}
	return nil
}
