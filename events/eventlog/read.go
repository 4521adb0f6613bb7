package eventlog

import (
	"context"
	"errors"
	"fmt"
)

// ReadConfig says what to read: a part of the log that is complete already.
type ReadConfig struct {
	From     uint64 // first sequence wanted; 0 means 1
	To       uint64 // last sequence wanted; the caller knows that the log holds it
	Subject  string // subject filter; empty means all
	MaxBytes int    // payload bytes after which a slice ends; 0 means 4 MiB
}

// PartReader reads a part of the log that is complete. [Direct] needs nothing
// but direct gets; [Bulk] needs a consumer, and a fourth of the work.
type PartReader interface {
	// Read calls yield with the log from From to To, slice after slice, and
	// returns nil at To. The slices after the one that yield works on are
	// fetched meanwhile: at most one that waits and one that is being fetched.
	// Servers that go away and come back are waited for until ctx ends, or the
	// connection is closed for good: ErrUnavailable. It returns yield's error as it
	// is.
	//
	// Without a filter the slices are contiguous, and one that is not is
	// ErrGap.
	Read(ctx context.Context, cfg ReadConfig, yield func(Slice) error) error
}

// readAhead yields the slices that fetch sends, and has it fetch the next one
// meanwhile. It returns when fetch has.
func readAhead(ctx context.Context, cfg ReadConfig, fetch func(context.Context, ReadConfig, chan<- Slice) error, yield func(Slice) error) error {
	cfg.From = max(1, cfg.From)
	if cfg.From > cfg.To {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	slices, failed := make(chan Slice, 1), make(chan error, 1)
	go func() {
		defer close(slices)
		failed <- fetch(ctx, cfg, slices)
	}()
	defer func() {
		cancel()
		for range slices {
		}
	}()
	for slice := range slices {
		if err := yield(slice); err != nil {
			return err
		}
	}
	return <-failed
}

// readEnds is the error of a read that may wait no longer: its context ended or is
// about to, or the connection is closed for good. A read that ends early returns
// this error, whatever the cause was.
func readEnds(ctx context.Context, next uint64, err error) error {
	return fmt.Errorf("read ends before sequence %d: %w", next, errors.Join(ErrUnavailable, ctx.Err(), err))
}
