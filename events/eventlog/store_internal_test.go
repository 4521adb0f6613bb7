package eventlog

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events"
)

// What the server says to the attempts of an append, and what its caller is told:
// that nothing was stored only where no attempt can have been.
func TestAttemptsThatAreRefused(t *testing.T) {
	t.Parallel()
	const (
		silence   = ""
		away      = `{"error":{"code":503,"err_code":10008,"description":"temporarily unavailable"}}`
		inProcess = `{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"}}`
		failed    = `{"error":{"code":503,"err_code":10077,"description":"write failed"}}`
		stored    = `{"stream":"LEDGER","seq":7,"duplicate":true}`
	)
	for name, test := range map[string]struct {
		answers []string // the last one again and again
		want    error
	}{
		"refused":                         {[]string{away}, ErrUnavailable},
		"no answer, refused":              {[]string{silence, away}, ErrUncertain},
		"no answer, refused, stored":      {[]string{silence, away, stored}, nil},
		"no answer, in process, stored":   {[]string{silence, inProcess, stored}, nil},
		"in process, and nothing more":    {[]string{inProcess}, ErrUncertain},
		"failed to store":                 {[]string{failed}, ErrUncertain},
		"failed to store, and stored":     {[]string{failed, stored}, nil},
		"in process, refused, and stored": {[]string{inProcess, away, stored}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			log := scripted(t, "ledger.>", func(m *nats.Msg) {
				answer := test.answers[min(asked, len(test.answers)-1)]
				asked++
				if answer == silence {
					return
				}
				if err := m.Respond([]byte(answer)); err != nil {
					t.Error(err)
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), attemptTimeout+time.Second)
			defer cancel()
			seq, err := log.Append(ctx, anAppend())
			if !errors.Is(err, test.want) || (err == nil) != (seq == 7) || (errors.Is(err, ErrUnavailable) && errors.Is(err, ErrUncertain)) {
				t.Errorf("%d, %v; want %v", seq, err, test.want)
			}
		})
	}
}

// A connection that was closed for good does not come back: nobody waits for it.
func TestAClosedConnectionIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	log := scripted(t, "ledger.>", func(*nats.Msg) {})
	log.nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	begun := time.Now()
	if _, err := log.Append(ctx, anAppend()); !errors.Is(err, ErrUnavailable) || !errors.Is(err, nats.ErrConnectionClosed) {
		t.Error(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

func anAppend() Append {
	return Append{
		Family: events.FamilyLedger, Owner: events.OwnerFromBytes([32]byte{1}), Kind: events.KindMemory,
		CommandID: fmt.Sprint(time.Now().UnixNano()), Payload: []byte("x"),
	}
}
