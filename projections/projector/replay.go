package projector

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/memory-ledger/ledger/events/eventlog"
)

// replayRecords is how many messages a replay commits at once, at least while the log has
// as many.
const replayRecords = 10000

// Replayer applies parts of the log to a schema that no projector works on, by
// the very code that the projector runs.
type Replayer struct {
	Conn *pgx.Conn // its search_path says which schema
	// Ahead, if set, is another connection to the schema. It writes the projections in
	// Leading, while Conn writes what the others make of the slice before. Leading
	// projections read nothing from the database. A crash or an error may then leave
	// memories that the checkpoint does not vouch for. So Ahead is only for a schema
	// that is discarded in that case.
	Ahead   *pgx.Conn
	Leading []Projection // some of the replayer's
	// Applied, if set, is called after each commit with the newest sequence that
	// was read.
	Applied func(seq uint64)

	log         eventlog.PartReader
	projections []Projection
	at          Checkpoint
	replanAt    uint64
}

// NewReplayer returns a replayer that goes on where the schema is.
func NewReplayer(ctx context.Context, conn *pgx.Conn, log eventlog.PartReader, projections []Projection) (*Replayer, error) {
	at, err := ReadCheckpoint(ctx, conn)
	if err != nil {
		return nil, err
	}
	return &Replayer{Conn: conn, log: log, projections: projections, at: at}, nil
}

// At returns how far the schema is.
func (r *Replayer) At() Vector { return r.at.Vector }

// To applies the log up to and including a position: of each partition what it
// lacks. A partition that is further stays there. A crash leaves whole slices
// and their checkpoint.
func (r *Replayer) To(ctx context.Context, want Vector) error {
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

// upTo returns only when no goroutine uses the connections anymore, also after an error.
func (r *Replayer) upTo(ctx context.Context, want Vector, to uint64) error {
	// The first error of a stage that writes stops the others, and is returned.
	stages, ctx := errgroup.WithContext(ctx)
	var readErr error // stops nothing: what was gathered before is still applied
	// One is applied, one waits, one is gathered: the log is read while the
	// database writes, and no more than three are in memory; four, where one is
	// applied by two connections.
	gathered, ready := make(chan portion, 1), make(chan portion)
	projections, source := Begin(r.projections), gathered
	var leading []Projection
	if r.Ahead != nil {
		leading, projections = r.ahead(projections)
	}
	have := r.at.Vector
	stages.Go(func() error {
		defer close(gathered)
		readErr = r.read(ctx, have, want, to, leading, gathered)
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
			if err := r.apply(ctx, projections, want, slice.Slice); err != nil {
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

// ahead takes apart those projections that go ahead and the others.
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

// portion is what is committed at once: a slice, and what is made of it to be
// written ahead.
type portion struct {
	Slice
	bytes int // of its payloads
	ahead []Step
}

// grow takes in the slice that follows.
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

// read decodes what is wanted of the log, gathers what is to be committed at once,
// and has the leading projections say what they make of it: they need nothing of
// the database, which works on the slices before meanwhile.
func (r *Replayer) read(ctx context.Context, have, want Vector, to uint64, leading []Projection, out chan<- portion) error {
	wants := func(p int, seq uint64) bool { return have.Wants(p, seq) && seq <= want.At(p) }
	var d decoder
	var gathered portion
	return r.log.Read(ctx, eventlog.ReadConfig{From: have.Next(want), To: to}, func(raw eventlog.Slice) error {
		slice, err := d.decode(raw, wants)
		if err != nil {
			return err
		}
		gathered.grow(slice, raw)
		if len(gathered.Records) < replayRecords && gathered.bytes < defaultSliceBytes && gathered.Last < to {
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

// lead writes what goes ahead.
func (r *Replayer) lead(ctx context.Context, slice portion) error {
	if err := commit(ctx, r.Ahead, slice.ahead, nil); err != nil {
		return fmt.Errorf("replay sequences %d to %d: %w", slice.First, slice.Last, err)
	}
	return nil
}

func (r *Replayer) apply(ctx context.Context, projections []Projection, want Vector, slice Slice) error {
	a := advance{r.at.Generation, r.at.Vector, r.at.Toward(want, slice.Last, slice.Stored)}
	if err := write(ctx, r.Conn, projections, a, slice, slice.Last >= r.replanAt); err != nil {
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
