package eventlog

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// Answers of the server to the attempts of an append, and the result for the caller. The
// result is "nothing was stored" only if no attempt can have been stored.
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
		answers []string // the last one repeats
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
				check(t, m.Respond([]byte(answer)))
			})
			patience := time.Minute
			if test.want != nil { // the last answer repeats until the deadline
				patience = attemptTimeout + time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			seq, err := log.Append(ctx, anAppend())
			if !errors.Is(err, test.want) || (err == nil) != (seq == 7) || (errors.Is(err, ErrUnavailable) && errors.Is(err, ErrUncertain)) {
				t.Errorf("%d, %v; want %v", seq, err, test.want)
			}
		})
	}
}

// An append that reached no server is not stored, and the error says so. There are two
// cases: no server keeps the log, or the connection is down and must not buffer messages.
func TestWhatReachesNobodyIsNotStored(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t) // without a stream
	away := make(chan struct{})
	nc, _ := natstest.Connect(t, server.URL(), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { close(away) }))
	log := &JetStream{nc: nc, inboxes: newInboxes(nc)}
	refused := func(by error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*retryPause)
		defer cancel()
		if _, err := log.Append(ctx, anAppend()); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUncertain) || !errors.Is(err, by) {
			t.Errorf("%v, want %v", err, by)
		}
	}
	refused(nats.ErrNoResponders)
	check(t, server.Stop(t.Context()))
	<-away
	refused(nats.ErrReconnectBufExceeded)
}

// After a refusal, Append asks the log whether an earlier attempt was stored. It repeats
// the question until the log answers, and until the message that caused the refusal can be
// read.
func TestTheLookForAnEarlierAttemptIsRepeated(t *testing.T) {
	t.Parallel()
	server, mine := natstest.Start(t), anAppend()
	asked := 0
	scriptedAt(t, server.URL(), "$JS.API.DIRECT.GET."+StreamName, func(m *nats.Msg) {
		answer := &nats.Msg{Header: nats.Header{"Status": {"503"}}, Data: []byte("not now")}
		switch asked++; {
		case asked == 2:
			answer.Header = nats.Header{"Status": {"404"}}
		case asked > 2:
			answer.Header = nats.Header{
				"Nats-Sequence": {"7"}, "Nats-Time-Stamp": {time.Unix(0, 0).Format(time.RFC3339Nano)}, "Nats-Msg-Id": {mine.CommandID},
				"Nats-Subject":                        {events.Subject{Family: mine.Family, Owner: mine.Owner, Kind: mine.Kind}.String()},
				"Nats-Expected-Last-Subject-Sequence": {"0"}, "Nats-Expected-Last-Subject-Sequence-Subject": {events.OwnerFilter(mine.Family, mine.Owner)},
			}
		}
		check(t, m.RespondMsg(answer))
	})
	answers := []string{
		`{"error":{"code":503,"err_code":10077,"description":"write failed"}}`,
		`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 7"}}`,
	}
	log := scriptedAt(t, server.URL(), "ledger.>", func(m *nats.Msg) {
		answer := answers[0]
		answers = answers[1:]
		check(t, m.Respond([]byte(answer)))
	})
	if seq, err := log.Append(t.Context(), mine); err != nil || seq != 7 {
		t.Errorf("%d, %v", seq, err)
	}
}

// An append was refused because of another message in flight, and that message was lost
// with its leader. The append is sent again.
func TestTheMessageInFlightMayBeLost(t *testing.T) {
	t.Parallel()
	url := withoutStreams(t) // a server with streams would answer these questions, too
	scriptedAt(t, url, "$JS.API.DIRECT.GET."+StreamName, func(m *nats.Msg) {
		check(t, m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}}}))
	})
	scriptedAt(t, url, "$JS.API.STREAM.INFO."+StreamName, func(m *nats.Msg) {
		check(t, m.Respond([]byte(`{"config":{"name":"LEDGER"},"state":{"messages":0}}`)))
	})
	answers := []string{
		`{"error":{"code":503,"err_code":10077,"description":"write failed"}}`,
		`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`,
		`{"stream":"LEDGER","seq":7}`,
	}
	log := scriptedAt(t, url, "ledger.>", func(m *nats.Msg) {
		answer := answers[0]
		answers = answers[1:]
		check(t, m.Respond([]byte(answer)))
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if seq, err := log.Append(ctx, anAppend()); err != nil || seq != 7 {
		t.Errorf("%d, %v", seq, err)
	}
}

func anAppend() Append {
	return Append{
		Family: events.FamilyLedger, Owner: events.OwnerFromBytes([32]byte{1}), Kind: events.KindMemory,
		CommandID: fmt.Sprint(time.Now().UnixNano()), Payload: []byte("x"),
	}
}
