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
	// Applied, if set, is called after each commit with the newest sequence that was
	// read.
	Applied func(seq uint64)

	log         eventlog.PartReader
	projections []Projection
	reached
}

// NewReplayer returns a replayer that continues from the schema's checkpoint.
func NewReplayer(ctx context.Context, conn *pgx.Conn, log eventlog.PartReader, projections []Projection) (*Replayer, error) {
	at, err := ReadCheckpoint(ctx, conn)
	if err != nil {
		return nil, err
	}
	return &Replayer{Conn: conn, log: log, projections: projections, reached: reached{at: at}}, nil
}

func (r *Replayer) At() uint64 { return r.at.Seq }

// To applies the log up to and including a sequence. The next messages are read while the
// database writes. A crash leaves whole slices and their checkpoint. To returns only when no
// goroutine uses the connection, even after an error.
func (r *Replayer) To(ctx context.Context, to uint64) error {
	if r.at.Seq >= to {
		return nil
	}
	stages, ctx := errgroup.WithContext(ctx)
	gathered, have := make(chan Slice, 1), r.at.Seq
	var readErr error // does not stop the other stage: gathered messages are still applied
	stages.Go(func() error {
		defer close(gathered)
		readErr = r.read(ctx, have, to, gathered)
		return nil
	})
	stages.Go(func() error {
		for slice := range gathered {
			if err := r.write(ctx, r.Conn, r.projections, slice); err != nil {
				return fmt.Errorf("replay sequences %d to %d: %w", slice.First, slice.Last, err)
			}
			if r.Applied != nil {
				r.Applied(slice.Last)
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

// read decodes the messages and gathers them into slices of up to 10,000, because a commit
// costs the same for any number.
func (r *Replayer) read(ctx context.Context, have, to uint64, out chan<- Slice) error {
	var d decoder
	var gathered Slice
	bytes := 0 // of the payloads
	return r.log.Read(ctx, eventlog.ReadConfig{From: have + 1, To: to}, func(raw eventlog.Slice) error {
		slice, err := d.decode(raw, have)
		if err != nil {
			return err
		}
		if gathered.Last == 0 {
			gathered.First = slice.First
		}
		gathered.Last, gathered.Stored, gathered.Records = slice.Last, slice.Stored, append(gathered.Records, slice.Records...)
		for i := range raw.Records {
			bytes += len(raw.Records[i].Payload)
		}
		if len(gathered.Records) < 10_000 && bytes < maxSliceBytes && gathered.Last < to {
			return nil
		}
		select {
		case out <- gathered:
			gathered, bytes = Slice{}, 0
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}
