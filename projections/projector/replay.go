package projector

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/events/eventlog"
)

// Replayer applies parts of the log to a schema that no projector works on. It runs the
// same code as the projector.
type Replayer struct {
	Conn *pgx.Conn // its search_path names the schema
	// Ahead, if set, is another connection to the schema. It writes the projections in
	// Leading, while Conn writes the other projections of the slice before. Leading
	// projections read nothing from the database. A crash or an error may then leave
	// memories that the checkpoint does not cover. So use Ahead only for a schema that is
	// discarded in that case.
	Ahead   *pgx.Conn
	Leading []Projection // a subset of the replayer's projections
	// Applied, if set, is called after each commit with the newest sequence that was
	// read.
	Applied func(seq uint64)

	log         eventlog.PartReader
	projections []Projection
	at          Checkpoint
	replanAt    uint64
}

// NewReplayer returns a replayer that continues from the schema's checkpoint.
func NewReplayer(ctx context.Context, conn *pgx.Conn, log eventlog.PartReader, projections []Projection) (*Replayer, error) {
	at, err := ReadCheckpoint(ctx, conn)
	if err != nil {
		return nil, err
	}
	return &Replayer{Conn: conn, log: log, projections: projections, at: at}, nil
}

// At returns the schema's position.
func (r *Replayer) At() uint64 { return r.at.Seq }

// To applies the log up to and including a sequence. A crash leaves whole slices and
// their checkpoint. To returns only when no goroutine uses the connections, even after an
// error.
func (r *Replayer) To(ctx context.Context, to uint64) error {
	if r.at.Seq >= to {
		return nil
	}
	// The first error of a writing stage stops the other stages, and upTo returns it.
	stages, ctx := errgroup.WithContext(ctx)
	var readErr error // stops no stage: gathered messages are still applied
	// One portion is applied, one waits, and one is gathered, so that the log is read
	// while the database writes. At most three portions are in memory; four if two
	// connections apply.
	gathered, ready := make(chan portion, 1), make(chan portion)
	projections, source := Begin(r.projections), gathered
	var leading []Projection
	if r.Ahead != nil {
		leading, projections = r.ahead(projections)
	}
	have := r.at.Seq
	stages.Go(func() error {
		defer close(gathered)
		readErr = r.read(ctx, have, to, leading, gathered)
		return nil
	})
	if r.Ahead != nil {
		source = ready
		stages.Go(func() error {
			defer close(ready)
			for slice := range gathered {
				if err := r.lead(ctx, slice); err != nil {
					return err
				}
				select {
				case ready <- slice:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return nil
		})
	}
	stages.Go(func() error {
		for slice := range source {
			if err := r.apply(ctx, projections, slice.Slice); err != nil {
				return err
			}
		}
		return nil
	})
	if err := stages.Wait(); err != nil {
		return err
	}
	if readErr != nil {
		return fmt.Errorf("replay: %w", readErr)
	}
	return nil
}

// ahead separates the leading projections from the others.
func (r *Replayer) ahead(all []Projection) (leading, others []Projection) {
	goesAhead := make(map[string]bool)
	for _, p := range r.Leading {
		goesAhead[p.Name()] = true
	}
	for _, p := range all {
		if goesAhead[p.Name()] {
			leading = append(leading, p)
		} else {
			others = append(others, p)
		}
	}
	return leading, others
}

// portion is the unit of a commit: a slice, and the steps of the leading projections for
// it.
type portion struct {
	Slice
	bytes int // of its payloads
	ahead []Step
}

// grow appends the next slice.
func (p *portion) grow(more Slice, raw eventlog.Slice) {
	if p.Last == 0 {
		p.Slice = more
	} else {
		p.Last, p.Stored, p.Records = more.Last, more.Stored, append(p.Records, more.Records...)
	}
	for i := range raw.Records {
		p.bytes += len(raw.Records[i].Payload)
	}
}

// read decodes the wanted messages and gathers them into portions. It also runs the
// leading projections: they read nothing from the database, which meanwhile works on the
// slices before.
func (r *Replayer) read(ctx context.Context, have, to uint64, leading []Projection, out chan<- portion) error {
	var d decoder
	var gathered portion
	return r.log.Read(ctx, eventlog.ReadConfig{From: have + 1, To: to}, func(raw eventlog.Slice) error {
		slice, err := d.decode(raw, have)
		if err != nil {
			return err
		}
		gathered.grow(slice, raw)
		// This is how many messages a replay commits at once, while that many remain.
		if len(gathered.Records) < 10000 && gathered.bytes < defaultSliceBytes && gathered.Last < to {
			return nil
		}
		whole := gathered
		gathered = portion{}
		if whole.ahead, err = stepsOf(ctx, nil, leading, whole.Slice); err != nil {
			return err
		}
		select {
		case out <- whole:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// lead writes the steps of the leading projections.
func (r *Replayer) lead(ctx context.Context, slice portion) error {
	if err := commit(ctx, r.Ahead, slice.ahead, nil); err != nil {
		return fmt.Errorf("replay sequences %d to %d: %w", slice.First, slice.Last, err)
	}
	return nil
}

func (r *Replayer) apply(ctx context.Context, projections []Projection, slice Slice) error {
	moved := Checkpoint{r.at.Generation, slice.Last, slice.Stored}
	if err := write(ctx, r.Conn, projections, advance{r.at, moved}, slice, slice.Last >= r.replanAt); err != nil {
		return fmt.Errorf("replay sequences %d to %d: %w", slice.First, slice.Last, err)
	}
	r.at = moved
	if slice.Last >= r.replanAt {
		r.replanAt = nextReplan(slice.Last)
	}
	if r.Applied != nil {
		r.Applied(slice.Last)
	}
	return nil
}
