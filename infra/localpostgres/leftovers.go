package localpostgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// patience is how long we wait for a leftover before we send the next, harsher signal.
const patience = 3 * time.Second

// pollEvery is how often we check whether a process that is not our child has ended.
const pollEvery = 10 * time.Millisecond

// stopLeftovers ends every server process that still works in a cluster. The
// caller holds the folder's lock, so they belong to a run that was killed.
//
// First it only waits: a server whose parent was killed is already stopping. Then it
// sends SIGQUIT, which ends a server without a checkpoint (the next start recovers from
// the log). Then it sends SIGKILL. If we crash in between, the next start finds fewer
// leftovers and does the same.
func stopLeftovers(ctx context.Context, cluster string) error {
	for _, sig := range []syscall.Signal{0, syscall.SIGQUIT, syscall.SIGKILL} {
		left, err := leftovers(cluster)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
		wait := patience
		if sig == 0 {
			wait = patience / 10
		}
		for _, pid := range left {
			if err := signalLeftover(cluster, pid, sig); err != nil {
				return err
			}
		}
		if err := awaitNone(ctx, cluster, wait); err == nil {
			break
		} else if !errors.Is(err, errStillThere) {
			return err
		}
	}
	left, err := leftovers(cluster)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("processes %v of an earlier run still use %s and cannot be stopped", left, cluster)
	}
	return forgetLeftovers(cluster)
}

// signalLeftover opens a handle on the process, and only then looks again whether
// the process is one of ours. So another process that gets the pid in between is
// never signaled.
func signalLeftover(cluster string, pid int, sig syscall.Signal) error {
	if sig == 0 {
		return nil
	}
	proc, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer func() { _ = proc.Release() }() // nothing to lose: only a handle
	left, err := leftovers(cluster)
	if err != nil || !slices.Contains(left, pid) {
		return err
	}
	if err := proc.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d of an earlier run in %s: %w", pid, cluster, err)
	}
	return nil
}

var errStillThere = errors.New("leftovers still there")

func awaitNone(ctx context.Context, cluster string, wait time.Duration) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	end := time.After(wait)
	for {
		left, err := leftovers(cluster)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-tick.C:
		case <-end:
			return errStillThere
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func pidFile(cluster string) string { return filepath.Join(cluster, "postmaster.pid") }
