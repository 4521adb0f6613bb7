package fence

import "context"

// Wait returns once the read models hold the log up to seq, for all owners.
func (f *Fence) Wait(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, f.opts.Timeout)
	defer cancel()
	return f.wait(ctx, seq)
}
