package eventlog_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// TestATailIsWhole: for each family and for both together, all messages arrive in order.
// So does a message that another program wrote, which does not name the previous message.
func TestATailIsWhole(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	log, _ := open(t, server.URL())
	_, js := connect(t, server.URL())
	owner, newest := logtest.Owner(), map[events.Family]uint64{}
	all := map[events.Family][]uint64{}
	kinds := map[events.Family]events.SubjectKind{events.FamilyLedger: events.KindMemory, events.FamilyChain: events.KindBatch}
	wrote := func(f events.Family, seq uint64) {
		newest[f] = seq
		all[f], all[events.FamilyAny] = append(all[f], seq), append(all[events.FamilyAny], seq)
	}
	for n := range 60 {
		f := []events.Family{events.FamilyLedger, events.FamilyLedger, events.FamilyChain}[n%3]
		if n == 30 {
			ack, err := js.Publish(t.Context(), events.Subject{Family: f, Owner: owner, Kind: kinds[f]}.String(), []byte("x"))
			must(t, err)
			wrote(f, ack.Sequence)
			continue
		}
		seq, err := log.Append(t.Context(), eventlog.Append{
			Family: f, Owner: owner, Kind: kinds[f], CommandID: fmt.Sprint(n), Expected: newest[f], Payload: []byte("x"),
		})
		must(t, err)
		wrote(f, seq)
		_, err = log.Append(t.Context(), eventlog.Append{
			Family: f, Owner: logtest.Owner(), Kind: kinds[f], CommandID: logtest.CommandID(), Payload: []byte("x"),
		})
		must(t, err)
	}
	for family, want := range all {
		for _, after := range append([]uint64{0}, all[events.FamilyAny]...) {
			var got []uint64
			must(t, log.OwnerTail(t.Context(), family, owner, after, func(r eventlog.Record) error {
				got = append(got, r.Seq)
				return nil
			}))
			rest := slices.DeleteFunc(slices.Clone(want), func(seq uint64) bool { return seq <= after })
			if !slices.Equal(got, rest) {
				t.Fatalf("family %q after %d: %v, want %v", family, after, got, rest)
			}
		}
	}
}
