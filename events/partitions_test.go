package events_test

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/memory-ledger/ledger/events"
)

func run(t *testing.T, text string) events.Partitions {
	t.Helper()
	r, err := events.ParsePartitions(text)
	if err != nil {
		t.Fatal(err)
	}
	if r.String() != text {
		t.Fatalf("%s is read as %s", text, r)
	}
	return r
}

func TestRunsAreRead(t *testing.T) {
	t.Parallel()
	if all := run(t, "00-ff"); all != events.AllPartitions || all.Count() != events.PartitionCount {
		t.Errorf("all are %v", all)
	}
	if one := run(t, "7f-7f"); one.Count() != 1 || !one.Has(0x7f) || one.Has(0x80) || one.Has(0x7e) {
		t.Errorf("one is %v", one)
	}
	for _, bad := range []string{"", "00", "00-", "-ff", "80-7f", "0-ff", "00-100", "00-FF", "00-fg", "+0-ff", "00-7f-ff", " 00-ff"} {
		if r, err := events.ParsePartitions(bad); !errors.Is(err, events.ErrPartitions) {
			t.Errorf("%q is read as %v, %v", bad, r, err)
		}
	}
}

func TestSubjectsNameTheirOwnersPartition(t *testing.T) {
	t.Parallel()
	for range 100 {
		var key [32]byte
		_, _ = rand.Read(key[:])
		owner := events.OwnerFromBytes(key)
		s := events.Subject{Family: events.FamilyLedger, Owner: owner, Kind: events.KindMemory}.String()
		if p, ok := events.PartitionIn(s); !ok || p != events.PartitionOf(owner) {
			t.Errorf("%s is in %d", s, p)
		}
	}
	for _, bad := range []string{"", "ledger", "ledger.what", "ledger..x.memory", "ledger.0.x.memory", "ledger.AB.x.memory"} {
		if p, ok := events.PartitionIn(bad); ok {
			t.Errorf("%q is in %d", bad, p)
		}
	}
}
