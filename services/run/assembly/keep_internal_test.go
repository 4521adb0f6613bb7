package assembly

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// kept is a server that keepUp restarts, with its restart function.
type kept struct {
	ended    chan struct{}
	restarts int
	fails    error
}

func (k *kept) restart(ctx context.Context) error {
	if ctx.Err() != nil || k.fails != nil {
		return errors.Join(ctx.Err(), k.fails)
	}
	k.restarts++
	k.ended = make(chan struct{})
	return nil
}

// keep ends the server after each of the pauses. It returns keepUp's log and its error,
// which is nil if keepUp goes on until the run ends.
func (k *kept) keep(t *testing.T, pauses ...time.Duration) (lines string, err error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var text strings.Builder
	k.ended = make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- keepUp(ctx, slog.New(slog.NewTextHandler(&text, nil)), "the server", func() <-chan struct{} { return k.ended }, k.restart)
	}()
	for _, pause := range pauses {
		time.Sleep(pause) // on the bubble's clock
		close(k.ended)
		synctest.Wait()
	}
	stop()
	err = <-done
	return text.String(), err
}

// TestAServerIsKeptUp: a server that ends is restarted, unless it repeatedly ends within
// a minute.
func TestAServerIsKeptUp(t *testing.T) {
	t.Parallel()
	const soon, settled = settledAfter - time.Millisecond, settledAfter
	for name, test := range map[string]struct {
		pauses   []time.Duration
		fails    error
		restarts int
		says     string // in the error
	}{
		"it never ends":              {nil, nil, 0, ""},
		"it ends three times":        {[]time.Duration{soon, soon, soon}, nil, 3, ""},
		"it ends a fourth time":      {[]time.Duration{soon, soon, soon, soon}, nil, 3, "the server ended 4 times"},
		"it ends now and then":       {[]time.Duration{settled, settled, settled, settled, settled}, nil, 5, ""},
		"it lasted once":             {[]time.Duration{soon, soon, settled, soon, soon}, nil, 5, ""},
		"it lasted once, and is bad": {[]time.Duration{soon, settled, soon, soon, soon}, nil, 4, "the server ended 4 times"},
		"it can't be started":        {[]time.Duration{settled}, errors.New("no disk"), 0, "start the server again: no disk"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &kept{fails: test.fails}
				lines, err := k.keep(t, test.pauses...)
				if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) || k.restarts != test.restarts {
					t.Errorf("%d restarts, then %v", k.restarts, err)
				}
				if n := strings.Count(lines, "level=ERROR"); n < k.restarts || strings.Count(lines, "is up again") != k.restarts {
					t.Errorf("it says %s", lines)
				}
			})
		})
	}
}

// TestAServerThatEndsWithTheRunIsLeftAlone: Ctrl-C in a terminal reaches the run and the
// server.
func TestAServerThatEndsWithTheRunIsLeftAlone(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	k := &kept{ended: make(chan struct{})}
	close(k.ended)
	for range 50 { // select picks one of the two at random
		if err := keepUp(ctx, slog.New(slog.DiscardHandler), "the server", func() <-chan struct{} { return k.ended }, k.restart); err != nil || k.restarts != 0 {
			t.Fatalf("%d restarts, %v", k.restarts, err)
		}
	}
}
