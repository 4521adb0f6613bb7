package eventlog

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/memory-ledger/ledger/infra/localnats/natstest"
	"github.com/memory-ledger/ledger/infra/testkit"
)

// TestInboxes: every request gets its own answer, even after a request whose
// answer arrived too late or twice. A request without a responder fails at once.
func TestInboxes(t *testing.T) {
	t.Parallel()
	nc, _ := natstest.Connect(t, natstest.Start(t).URL())
	late := make(chan *nats.Msg, 1)
	answer := func(m *nats.Msg) {
		if string(m.Data) == "later" {
			late <- m
			return
		}
		check(t, m.Respond(m.Data))
	}
	testkit.Must(t, testkit.ErrorOf(nc.Subscribe("echo", answer)))
	boxes := newInboxes(nc)
	ask := func(text string, patience time.Duration) (string, error) {
		m, _, err := boxes.request(t.Context(), &nats.Msg{Subject: "echo", Data: []byte(text)}, patience, patience)
		if err != nil {
			return "", err
		}
		return string(m.Data), nil
	}

	var callers sync.WaitGroup
	for c := range 2 * keptInboxes {
		callers.Go(func() {
			for i := range 20 {
				text := fmt.Sprint(c, " ", i)
				if got, err := ask(text, time.Minute); err != nil || got != text {
					t.Errorf("%q: %q, %v", text, got, err)
				}
			}
		})
	}
	callers.Wait()
	if _, err := ask("later", time.Millisecond); !errors.Is(err, nats.ErrTimeout) {
		t.Errorf("got %v", err)
	}
	check(t, (<-late).Respond([]byte("late")))
	for i := range 2 * keptInboxes {
		if got, err := ask(fmt.Sprint(i), time.Minute); err != nil || got != fmt.Sprint(i) {
			t.Errorf("%d: %q, %v", i, got, err)
		}
	}
	again := make(chan error, 1)
	testkit.Must(t, testkit.ErrorOf(nc.Subscribe("twice", func(m *nats.Msg) {
		check(t, m.Respond([]byte("once")))
		again <- m.Respond([]byte("twice"))
	})))
	for len(boxes.free) > 0 { // else the next request would use another inbox
		(<-boxes.free).discard()
	}
	if m, _, err := boxes.request(t.Context(), &nats.Msg{Subject: "twice"}, time.Minute, time.Minute); err != nil || string(m.Data) != "once" {
		t.Errorf("%v, %v", m, err)
	}
	check(t, errors.Join(<-again, nc.Flush()))
	if got, err := ask("another", time.Minute); err != nil || got != "another" {
		t.Errorf("%q, %v", got, err)
	}
	// The second answer of another node may come while the next request waits.
	var first *nats.Msg
	testkit.Must(t, testkit.ErrorOf(nc.Subscribe("two.nodes", func(m *nats.Msg) {
		if first != nil {
			check(t, first.Respond([]byte("the first question's")))
		}
		first = m
		check(t, m.Respond(m.Data))
	})))
	for _, text := range []string{"first", "second"} {
		m, _, err := boxes.request(t.Context(), &nats.Msg{Subject: "two.nodes", Data: []byte(text)}, time.Minute, time.Minute)
		if err != nil || string(m.Data) != text {
			t.Errorf("%s: %v, %v", text, m, err)
		}
	}
	// A node that knows no leader does not answer for the others.
	testkit.Must(t, testkit.ErrorOf(nc.Subscribe("no.leader", func(m *nats.Msg) {
		for _, text := range []string{`{"error":{"code":503,"err_code":10008}}`, string(m.Data)} {
			check(t, m.Respond([]byte(text)))
			if len(m.Data) == 0 {
				return
			}
		}
	})))
	for text, patience := range map[string]time.Duration{"led": time.Minute, "": 2 * time.Second} {
		m, _, err := boxes.request(t.Context(), &nats.Msg{Subject: "no.leader", Data: []byte(text)}, patience, time.Minute)
		if want := cmp.Or(text, `{"error":{"code":503,"err_code":10008}}`); err != nil || string(m.Data) != want {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
	// Its answer may come instead of the leader's: then the question is soon put again.
	copies := 0
	testkit.Must(t, testkit.ErrorOf(nc.Subscribe("some.leader", func(m *nats.Msg) {
		if copies++; copies < 3 {
			m.Data = []byte(`{"error":{"code":503,"err_code":10008}}`)
		}
		check(t, m.Respond(m.Data))
	})))
	if m, sent, err := boxes.request(t.Context(), &nats.Msg{Subject: "some.leader", Data: []byte("led")}, time.Minute, 30*time.Second); err != nil || string(m.Data) != "led" || sent != 3 {
		t.Errorf("after %d copies: %v, %v", sent, m, err)
	}
	if _, _, err := boxes.request(t.Context(), &nats.Msg{Subject: "nobody"}, time.Minute, time.Minute); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v", err)
	}
	nc.Close()
	if _, err := ask("closed", time.Minute); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("got %v", err)
	}
}
