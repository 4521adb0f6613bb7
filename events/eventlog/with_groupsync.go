package eventlog

import (
	"context"
	"fmt"
)

// groupSynced is a log on a server that acknowledges a message before the message is on
// stable storage.
type groupSynced struct {
	Log
	syncer Syncer
}

// WithGroupSync returns a log whose appends wait for a sync that many of them share. The
// server below it leaves the fsync to the syncer.
//
// The server acknowledges, then the syncer syncs, then the writer answers. A crash between
// the first two steps leaves a message that readers may have seen and a power cut may lose.
// Its writer has not answered, so nothing was promised. The owner's next appends come after
// it in the file, and their syncs begin after those appends: none of them becomes durable
// without it.
func WithGroupSync(log Log, syncer Syncer) Log { return groupSynced{log, syncer} }

// Append implements Appender.
func (g groupSynced) Append(ctx context.Context, a Append) (Appended, error) {
	appended, err := g.Log.Append(ctx, a)
	appended.Sync = g.Sync
	return appended, err
}

// Sync implements Syncer.
func (g groupSynced) Sync(ctx context.Context) error {
	if err := g.syncer.Sync(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return nil
}
