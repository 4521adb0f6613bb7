package eventlog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestASilentLeaderIsAskedMoreOften: after an attempt without an answer, each further
// question and message is sent again more often, because a leader that is elected meanwhile
// has not seen what was sent before. An answer ends that.
func TestASilentLeaderIsAskedMoreOften(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	head := func(l *JetStream) error {
		_, err := l.Head(ctx)
		return err
	}
	write := func(l *JetStream) error {
		ctx, cancel := context.WithTimeout(ctx, attemptTimeout+retryPause)
		defer cancel()
		_, err := l.Append(ctx, anAppend())
		return err
	}
	for name, test := range map[string]struct {
		subject, answer string
		ask             func(*JetStream) error
		silence         error
	}{
		"a question": {"$JS.API.STREAM.MSG.GET." + StreamName, `{"message":{"subject":"x","seq":7,"time":"1970-01-01T00:00:00Z"}}`, head, ErrUnavailable},
		"a message":  {"ledger.>", `{"stream":"` + StreamName + `","seq":7}`, write, ErrUncertain},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			var leads atomic.Bool
			log := scriptedAt(t, withoutStreams(t), test.subject, func(m *nats.Msg) {
				asked.Add(1)
				if leads.Load() {
					if err := m.Respond([]byte(test.answer)); err != nil {
						t.Error(err)
					}
				}
			})
			log.clustered = true
			for i, often := range []struct{ least, most int64 }{{3, 4}, {5, 100}} {
				asked.Store(0)
				err := test.ask(log)
				if n := asked.Load(); !errors.Is(err, test.silence) || n < often.least || n > often.most {
					t.Errorf("time %d: sent %d times, want %d to %d: %v", i, n, often.least, often.most, err)
				}
			}
			leads.Store(true)
			if err := test.ask(log); err != nil || log.resend() != lostResend {
				t.Errorf("%v; the next is sent again after %s", err, log.resend())
			}
		})
	}
}

// TestABatchThatBreaksOff: if the server dies within a batch, the rest is requested long
// before batchTimeout.
func TestABatchThatBreaksOff(t *testing.T) {
	t.Parallel()
	first := true
	log := scripted(t, "$JS.API.DIRECT.GET."+StreamName, func(m *nats.Msg) {
		send := func(header nats.Header, last, left int) {
			header.Set("Nats-Last-Sequence", strconv.Itoa(last))
			header.Set("Nats-Num-Pending", strconv.Itoa(left))
			if err := m.RespondMsg(&nats.Msg{Header: header}); err != nil {
				t.Error(err)
			}
		}
		message := func(seq, last, left int) {
			send(nats.Header{"Nats-Sequence": {fmt.Sprint(seq)}, "Nats-Time-Stamp": {time.Unix(0, 0).Format(time.RFC3339Nano)}}, last, left)
		}
		if first {
			first = false
			message(1, 0, 1)
			return
		}
		message(2, 0, 0)
		send(nats.Header{"Status": {"204"}}, 2, 0)
	})
	ctx, cancel := context.WithTimeout(t.Context(), batchTimeout-time.Second)
	defer cancel()
	read := 0
	if err := log.Read(ctx, ReadConfig{To: 2}, func(s Slice) error { read += len(s.Records); return nil }); err != nil || read != 2 {
		t.Errorf("read %d: %v", read, err)
	}
}

// TestARefusedCopySaysNothingOfTheFirst: an earlier copy of a message may be stored, whatever
// the answer to a later one is.
func TestARefusedCopySaysNothingOfTheFirst(t *testing.T) {
	t.Parallel()
	var copies atomic.Int64
	log := scriptedAt(t, withoutStreams(t), "ledger.>", func(m *nats.Msg) {
		if copies.Add(1) > 1 {
			if err := m.Respond([]byte(`{"error":{"code":503,"err_code":10008}}`)); err != nil {
				t.Error(err)
			}
		}
	})
	log.silent.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), attemptTimeout)
	defer cancel()
	if _, err := log.Append(ctx, anAppend()); !errors.Is(err, ErrUncertain) || copies.Load() < 2 {
		t.Errorf("sent %d times: %v", copies.Load(), err)
	}
}
