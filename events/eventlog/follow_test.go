package eventlog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// A follower ends with its context, even while its server does not answer the request for
// another consumer.
func TestAFollowerEndsWithoutItsServer(t *testing.T) {
	t.Parallel()
	server := natstest.StartProcess(t)
	log, _ := open(t, server.URL())
	// Long enough for the follower to notice that its consumer is gone.
	ends := time.Now().Add(5 * time.Second)
	ctx, cancel := context.WithDeadline(t.Context(), ends)
	defer cancel()
	fill(t, ctx, log, logtest.Owner(), 1)
	err := log.Follow(ctx, eventlog.FollowConfig{}, func(eventlog.Slice) error {
		server.Freeze()
		return nil
	})
	server.Thaw()
	if late := time.Since(ends); err != nil || late < 0 || late > time.Second {
		t.Errorf("ended %s after its context, %v", late, err)
	}
}

// The log is replaced by a shorter one, as by a restore from a backup, while it is
// followed.
func TestAFollowerOfALogThatGotShorter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.StartProcess(t, natstest.Dir(dir))
	log, _ := open(t, server.URL())
	fill(t, t.Context(), log, logtest.Owner(), 3)
	came, ended := make(chan uint64, 3), make(chan error, 1)
	go func() {
		ended <- log.Follow(t.Context(), eventlog.FollowConfig{}, func(s eventlog.Slice) error {
			came <- s.Last
			return nil
		})
	}()
	for <-came != 3 {
	}
	server.Stop()
	must(t, os.RemoveAll(filepath.Join(dir, "jetstream")))
	server.Start()
	_, _ = open(t, server.URL())
	if err := <-ended; !errors.Is(err, eventlog.ErrTruncated) {
		t.Errorf("it ended with %v", err)
	}
}
