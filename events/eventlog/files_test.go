package eventlog_test

import (
	"context"
	"errors"
	"testing"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// blocks that find nothing, and do something instead.
type blocks func()

func (b blocks) Scan(context.Context, uint64, uint64, func(uint64, int64, []byte, []byte, []byte) error) error {
	b()
	return nil
}

// A read whose context ends where the files do was not read to its end.
func TestFilesEndWithTheContext(t *testing.T) {
	t.Parallel()
	log, _ := open(t, natstest.Start(t).URL())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := log.Files(blocks(cancel)).Read(ctx, eventlog.ReadConfig{To: 5000}, func(eventlog.Slice) error { return nil })
	if !errors.Is(err, eventlog.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
