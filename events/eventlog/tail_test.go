package eventlog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// TestATailIsReadFromItsEnd: for each family and for both together, all messages arrive in
// order, and the server is not asked to search far away for the next one. A message that
// another program wrote, which does not name the previous message, is found too.
func TestATailIsReadFromItsEnd(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	log, _ := open(t, server.URL())
	conn, js := connect(t, server.URL())
	asked, err := conn.SubscribeSync("$JS.API.DIRECT.GET." + eventlog.StreamName)
	must(t, err)
	// looks returns how many searches for a next message were requested since the last call.
	looks := func() (n int) {
		t.Helper()
		if err := conn.Flush(); err != nil { // all requests so far are pending then
			t.Fatal(err)
		}
		pending, _, err := asked.Pending()
		must(t, err)
		for range pending {
			m, err := asked.NextMsg(time.Second)
			must(t, err)
			if strings.Contains(string(m.Data), "next_by_subj") {
				n++
			}
		}
		return n
	}
	looks() // returns once the server has the subscription
	owner, newest := logtest.Owner(), map[events.Family]uint64{}
	all := map[events.Family][]uint64{}
	kinds := map[events.Family]events.SubjectKind{events.FamilyLedger: events.KindMemory, events.FamilyChain: events.KindBatch}
	write := func(f events.Family, n int) {
		t.Helper()
		for range n {
			seq, err := log.Append(t.Context(), eventlog.Append{
				Family: f, Owner: owner, Kind: kinds[f], CommandID: fmt.Sprint(len(all[events.FamilyAny])), Expected: newest[f], Payload: []byte("x"),
			})
			must(t, err)
			newest[f] = seq
			all[f], all[events.FamilyAny] = append(all[f], seq), append(all[events.FamilyAny], seq)
		}
	}
	check := func(from ...uint64) {
		t.Helper()
		for family, want := range all {
			for _, after := range from {
				var got []uint64
				if err := log.OwnerTail(t.Context(), family, owner, after, func(r eventlog.Record) error {
					got = append(got, r.Seq)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				rest := slices.DeleteFunc(slices.Clone(want), func(seq uint64) bool { return seq <= after })
				if !slices.Equal(got, rest) {
					t.Fatalf("family %q after %d: %v, want %v", family, after, got, rest)
				}
			}
		}
	}
	some := func() {
		for range 3 {
			write(events.FamilyLedger, 3)
			write(events.FamilyChain, 2)
		}
	}
	some()
	early := append([]uint64{0}, all[events.FamilyAny]...)
	stranger := events.Subject{Family: events.FamilyLedger, Owner: logtest.Owner(), Kind: events.KindMemory}.String()
	for range 10_000 {
		if _, err := js.PublishAsync(stranger, []byte("x"), jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	check(early...)
	some()
	check(early...)
	if n := looks(); n > 0 {
		t.Errorf("the server looked for the next message %d times", n)
	}
	ack, err := js.Publish(t.Context(), events.Subject{Family: events.FamilyLedger, Owner: owner, Kind: events.KindMemory}.String(), []byte("x"))
	must(t, err)
	newest[events.FamilyLedger] = ack.Sequence
	for _, f := range []events.Family{events.FamilyLedger, events.FamilyAny} {
		all[f] = append(all[f], ack.Sequence)
	}
	write(events.FamilyChain, 1)
	write(events.FamilyLedger, 1)
	check(early...)
	write(events.FamilyLedger, 40)
	looks()
	check(append(early, all[events.FamilyAny]...)...)
	if looks() == 0 {
		t.Error("no search was counted: the test looks for the wrong thing")
	}
}
