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

// TestWaitingIsSaid: a start that waits logs a line at the first failure and every ten
// seconds after that. Its error is the cause of the failures.
func TestWaitingIsSaid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		refused := errors.New("connection refused")
		w := waiting{what: "a machine", logger: slog.New(slog.NewTextHandler(&said, nil)),
			because: func(error) reason { return reason{why: refused} }}
		const patience = 55 * time.Second // no line is due then
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		tries, began := 0, time.Now()
		err := w.eventually(ctx, func() error { tries++; return errors.New("outbound buffer limit exceeded") })
		lines := strings.Count(said.String(), "level=WARN msg=\"waiting for a machine\" err=\"connection refused\"")
		if !errors.Is(err, refused) || lines != 6 || tries < 200 {
			t.Errorf("%d tries, %v\n%s", tries, err, said.String())
		}
		if took := time.Since(began); took != patience {
			t.Errorf("it gave up after %s", took)
		}

		// If the server comes up in time, there is only one line.
		said.Reset()
		began = time.Now()
		err = w.eventually(t.Context(), func() error {
			if time.Since(began) < 3*time.Second {
				return refused
			}
			return nil
		})
		if err != nil || strings.Count(said.String(), "\n") != 1 {
			t.Errorf("%v\n%s", err, said.String())
		}
	})
}

// TestWaitingForAReason: an error whose cause is only a guess is logged at the second
// try. After a hopeless error there is no further try.
func TestWaitingForAReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		tries := 0
		w := waiting{what: "a machine", logger: slog.New(slog.NewTextHandler(&said, nil)),
			because: func(err error) reason { return reason{err, true, tries == 3} }}
		err := w.eventually(t.Context(), func() error {
			if tries++; tries == 2 && said.Len() > 0 {
				t.Errorf("at once: %s", said.String())
			}
			return errors.New("no")
		})
		if err == nil || tries != 3 || strings.Count(said.String(), "\n") != 1 {
			t.Errorf("%d tries, %v: %s", tries, err, said.String())
		}
	})
}
