package localnats

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// newGroupSync is one over a folder that looks like a stream's.
func newGroupSync(t *testing.T) *GroupSync {
	t.Helper()
	stream := filepath.Join(t.TempDir(), "$G", "streams", "LEDGER")
	msgs := filepath.Join(stream, "msgs")
	if err := os.MkdirAll(msgs, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"meta.inf", "meta.sum", "msgs/1.blk"} {
		if err := os.WriteFile(filepath.Join(stream, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return &GroupSync{dir: msgs}
}

// answered runs a sync and reports how it ends.
func answered(t *testing.T, sync func(context.Context) error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- sync(context.WithoutCancel(t.Context())) }()
	return done
}

func TestARoundWaitsForThoseWhoJoined(t *testing.T) {
	t.Parallel()
	g := newGroupSync(t)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		first, _ := g.Join()
		second, _ := g.Join()
		_, third := g.Join()
		one := answered(t, first)
		synctest.Wait()
		late, leave := g.Join() // belongs to the next round: nobody waits for it
		defer leave()
		_ = late
		two := answered(t, second)
		synctest.Wait()
		select {
		case <-one:
			t.Error("the round began while one who had joined was missing")
		default:
		}
		third()
		for _, done := range []<-chan error{one, two} {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %s for a timer", waited)
		}
	})
}

func TestARoundWaitsNoLongerThanItsLimit(t *testing.T) {
	t.Parallel()
	g := newGroupSync(t)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		sync, _ := g.Join()
		_, leave := g.Join() // hangs
		if err := <-answered(t, sync); err != nil {
			t.Error(err)
		}
		if waited := time.Since(start); waited != gatherLimit {
			t.Errorf("waited %s, want %s", waited, gatherLimit)
		}
		leave()
		alone, _ := g.Join()
		if err := <-answered(t, alone); err != nil {
			t.Error(err)
		}
		if waited := time.Since(start); waited != gatherLimit {
			t.Errorf("one alone waited %s", waited-gatherLimit)
		}
		if err := <-answered(t, g.Sync); err != nil {
			t.Error(err)
		}
	})
}

func TestAFailedSyncIsEverybodysError(t *testing.T) {
	t.Parallel()
	g := newGroupSync(t)
	if err := os.RemoveAll(filepath.Dir(g.dir)); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		first, _ := g.Join()
		second, _ := g.Join()
		one, two := answered(t, first), answered(t, second)
		if <-one == nil || <-two == nil {
			t.Error("a sync without a file succeeded")
		}
	})
}

// A disk that hangs keeps the one who is at it. Others wait as long as they may,
// and what they asked for is done once the disk is back.
func TestADiskThatHangsKeepsOneCaller(t *testing.T) {
	t.Parallel()
	g := newGroupSync(t)
	var hung chan struct{} // of the bubble
	rounds := 0
	g.watch = func(_, path string) {
		if path == blockPath(g.dir, 1) {
			rounds++
			<-hung
		}
	}
	synctest.Test(t, func(t *testing.T) {
		hung = make(chan struct{})
		leader := answered(t, g.Sync)
		synctest.Wait()
		const patience = 5 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		start := time.Now()
		if err := g.Sync(ctx); !errors.Is(err, ErrSync) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("behind a disk that hangs: %v", err)
		}
		if waited := time.Since(start); waited != patience {
			t.Errorf("waited %s, not %s", waited, patience)
		}
		patient := answered(t, g.Sync)
		synctest.Wait()
		if len(leader) > 0 || len(patient) > 0 {
			t.Error("answered while the disk hung")
		}
		close(hung)
		if err := errors.Join(<-leader, <-patient); err != nil {
			t.Error(err)
		}
		if rounds != 2 {
			t.Errorf("%d rounds, want the leader's and one for who came meanwhile", rounds)
		}
		synctest.Wait()
		if g.working {
			t.Error("nobody waits, and somebody works")
		}
	})
}

// Whoever does a round that panics, all who share it are told, and whoever comes
// later at once.
func TestAPanicInARoundIsEverybodysError(t *testing.T) {
	t.Parallel()
	for _, led := range []bool{true, false} {
		t.Run(fmt.Sprintf("led by a caller: %v", led), func(t *testing.T) {
			t.Parallel()
			g := newGroupSync(t)
			synctest.Test(t, func(t *testing.T) {
				goOn, rounds := make(chan struct{}), 0
				g.watch = func(_, path string) {
					if path != blockPath(g.dir, 1) {
						return
					}
					if rounds++; rounds == 1 {
						<-goOn
					}
					if led || rounds == 2 {
						panic("a round")
					}
				}
				first := answered(t, g.Sync)
				synctest.Wait()
				shared := []<-chan error{answered(t, g.Sync), answered(t, g.Sync)}
				synctest.Wait()
				close(goOn)
				if err := <-first; led != errors.Is(err, ErrSync) {
					t.Errorf("the first caller: %v", err)
				}
				shared = append(shared, answered(t, g.Sync)) // with those, or later
				for _, err := range shared {
					if err := <-err; !errors.Is(err, ErrSync) || !strings.Contains(err.Error(), "panic: a round") {
						t.Errorf("another caller: %v", err)
					}
				}
				done := rounds
				if err := <-answered(t, g.Sync); !errors.Is(err, ErrSync) || rounds != done {
					t.Errorf("after a panic: %v, %d more rounds", err, rounds-done)
				}
				if err := g.close(); err != nil {
					t.Errorf("the end, with nothing to empty: %v", err)
				}
			})
		})
	}
}

// A server that stops waits for the round that runs: what it says is true, and
// nobody else is at the files.
func TestTheEndWaitsForTheRound(t *testing.T) {
	t.Parallel()
	g := newGroupSync(t)
	g.half, g.redoPath = 4*redoPage, filepath.Join(t.TempDir(), "redo", "LEDGER")
	synctest.Test(t, func(t *testing.T) {
		if err := <-answered(t, g.Sync); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(blockPath(g.dir, 1), []byte("more"), 0o600); err != nil {
			t.Fatal(err)
		}
		goOn, rounds := make(chan struct{}), 0
		g.watch = func(step, _ string) {
			if step == stepCopied {
				rounds++
				<-goOn
			} else if rounds > 0 {
				select {
				case <-goOn:
				default:
					t.Error("two are at the files")
				}
			}
		}
		asked := answered(t, g.Sync)
		synctest.Wait()
		closed := answered(t, func(context.Context) error { return g.close() })
		synctest.Wait()
		if rounds != 1 || len(asked) > 0 || len(closed) > 0 {
			t.Errorf("%d rounds; the round is over: %v, the end: %v", rounds, len(asked) > 0, len(closed) > 0)
		}
		close(goOn)
		if err := errors.Join(<-asked, <-closed); err != nil {
			t.Error(err)
		}
	})
}
