package eventlog_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
)

// fixture is a log under test.
type fixture struct {
	log eventlog.Log
	cut func() // makes the server store the next append but lose its answer
	// restart stops the server and starts it again on the same data. Nil if the fixture
	// can't do that.
	restart func()
}

// part is a part of the suite: of Appender and Reader, of Follower, and of PartReader.
type part int

const (
	ofAppends part = iota
	ofFollows
	ofReads
)

// guarantees runs parts of the suite, which states what the log guarantees. fresh returns an
// empty log for each test.
func guarantees(t *testing.T, fresh func(t *testing.T) fixture, parts ...part) {
	for _, c := range []struct {
		part part
		name string
		test func(*testing.T, context.Context, fixture)
	}{
		{ofAppends, "an append is acknowledged with its sequence", appends},
		{ofAppends, "an append on an old version conflicts and stores nothing", conflicts},
		{ofAppends, "a repeated command gets the sequence it has, whatever was written after it", repeats},
		{ofAppends, "the expectation covers every kind of an owner's subjects", wildcard},
		{ofAppends, "families and owners do not conflict", independent},
		{ofAppends, "of many writers on one version exactly one wins", races},
		{ofAppends, "an owner's tail is in order and complete", tails},
		{ofFollows, "follow gives everything in order, then what comes", follows},
		{ofFollows, "follow resumes at any sequence", resumes},
		{ofFollows, "follow with a filter", filters},
		{ofFollows, "follow refuses a position beyond the end", truncated},
		{ofAppends, "an unavailable log says so within the deadline", unavailable},
		{ofFollows, "everything acknowledged survives a restart", restarts},
		{ofReads, "any part is read whole, in order and in bounded slices", readsParts},
		{ofReads, "a part is read by a filter, also where nothing passes", readsFiltered},
		{ofReads, "a read goes on where it was when its server went away", readsOn},
		{ofReads, "a read ends with its reader's error, or its context", readsEnd},
	} {
		if !slices.Contains(parts, c.part) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			c.test(t, ctx, fresh(t))
		})
	}
}

func command(o events.Owner, expected uint64) eventlog.Append {
	return eventlog.Append{
		Family: events.FamilyLedger, Owner: o, Kind: events.KindMemory,
		CommandID: logtest.CommandID(), Expected: expected, Payload: []byte(`"` + rand.Text() + `"`),
	}
}

func mustAppend(t *testing.T, ctx context.Context, log eventlog.Appender, a eventlog.Append) uint64 {
	t.Helper()
	seq, err := log.Append(ctx, a)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return seq
}

// fill appends n messages of an owner who has none, and returns the last one's sequence.
func fill(t *testing.T, ctx context.Context, log eventlog.Appender, o events.Owner, n int) (last uint64) {
	t.Helper()
	for range n {
		last = mustAppend(t, ctx, log, command(o, last))
	}
	return last
}

func expectHead(t *testing.T, ctx context.Context, log eventlog.Log, want uint64) {
	t.Helper()
	if got, err := log.Head(ctx); err != nil || got != want {
		t.Fatalf("head %d, %v; want %d", got, err, want)
	}
}

func expectOwnerHead(t *testing.T, ctx context.Context, log eventlog.Log, f events.Family, o events.Owner, want uint64) {
	t.Helper()
	if got, err := log.OwnerHead(ctx, f, o); err != nil || got != want {
		t.Fatalf("owner head %d, %v; want %d", got, err, want)
	}
}

func expectConflict(t *testing.T, ctx context.Context, log eventlog.Log, a eventlog.Append) {
	t.Helper()
	if _, err := log.Append(ctx, a); !errors.Is(err, eventlog.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
}

func appends(t *testing.T, ctx context.Context, f fixture) {
	o := logtest.Owner()
	expectHead(t, ctx, f.log, 0)
	expectOwnerHead(t, ctx, f.log, events.FamilyLedger, o, 0)
	if last := fill(t, ctx, f.log, o, 2); last != 2 {
		t.Fatalf("the second has sequence %d", last)
	}
	expectHead(t, ctx, f.log, 2)
	expectOwnerHead(t, ctx, f.log, events.FamilyLedger, o, 2)
}

func conflicts(t *testing.T, ctx context.Context, f fixture) {
	o := logtest.Owner()
	first := mustAppend(t, ctx, f.log, command(o, 0))
	expectConflict(t, ctx, f.log, command(o, 0))
	expectConflict(t, ctx, f.log, command(o, first+7))
	expectHead(t, ctx, f.log, first)
	mustAppend(t, ctx, f.log, command(o, first))
}

func repeats(t *testing.T, ctx context.Context, f fixture) {
	o := logtest.Owner()
	sequences := []uint64{0}
	var stored []eventlog.Append
	f.cut()
	for i := range 3 {
		a := command(o, sequences[i])
		stored, sequences = append(stored, a), append(sequences, mustAppend(t, ctx, f.log, a))
	}
	for i, a := range stored { // the owner's first message, a middle one, the newest
		if again := mustAppend(t, ctx, f.log, a); again != sequences[i+1] {
			t.Fatalf("message %d of the owner: first %d, again %d", i+1, sequences[i+1], again)
		}
	}
	expectHead(t, ctx, f.log, sequences[len(stored)])
}

func wildcard(t *testing.T, ctx context.Context, f fixture) {
	o := logtest.Owner()
	a := command(o, 0)
	a.Kind = events.KindSession
	first := mustAppend(t, ctx, f.log, a)
	b := command(o, 0)
	b.Kind = events.KindGrant
	expectConflict(t, ctx, f.log, b)
	b.Expected = first
	mustAppend(t, ctx, f.log, b)
}

func independent(t *testing.T, ctx context.Context, f fixture) {
	o, other := logtest.Owner(), logtest.Owner()
	first := mustAppend(t, ctx, f.log, command(o, 0))
	mustAppend(t, ctx, f.log, command(other, 0))
	chain := command(o, 0)
	chain.Family, chain.Kind = events.FamilyChain, events.KindBatch
	third := mustAppend(t, ctx, f.log, chain)
	expectOwnerHead(t, ctx, f.log, events.FamilyAny, o, third)
	expectOwnerHead(t, ctx, f.log, events.FamilyChain, o, third)
	expectOwnerHead(t, ctx, f.log, events.FamilyLedger, o, first)
	mustAppend(t, ctx, f.log, command(o, first))
}

func races(t *testing.T, ctx context.Context, f fixture) {
	o := logtest.Owner()
	const writers = 16
	var won atomic.Int64
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			_, err := f.log.Append(ctx, command(o, 0))
			if err == nil {
				won.Add(1)
			} else if !errors.Is(err, eventlog.ErrConflict) {
				t.Errorf("loser got %v", err)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d writers won", won.Load())
	}
	expectHead(t, ctx, f.log, 1)
}

func tails(t *testing.T, ctx context.Context, f fixture) {
	o, other := logtest.Owner(), logtest.Owner()
	var want []string
	var last, lastOther uint64
	const length = 250 // more than two batches
	for range length {
		a := command(o, last)
		last = mustAppend(t, ctx, f.log, a)
		want = append(want, a.CommandID)
		lastOther = mustAppend(t, ctx, f.log, command(other, lastOther))
	}
	expectNewest(t, ctx, f.log, o, last, want[length-1])
	expectNewest(t, ctx, f.log, logtest.Owner(), 0, "")
	for _, after := range []int{0, 7, 46, length - 4, length - 1, length} {
		seq := uint64(0)
		if after > 0 {
			seq = uint64(after*2 - 1)
		}
		var got []string
		err := f.log.OwnerTail(ctx, events.FamilyLedger, o, seq, func(r eventlog.Record) error {
			got = append(got, r.CommandID)
			return nil
		})
		must(t, err)
		if fmt.Sprint(got) != fmt.Sprint(want[after:]) {
			t.Fatalf("tail after %d: %v, want %v", seq, got, want[after:])
		}
	}
}

// expectNewest checks the owner's newest message: of any kind, of the command's kind, and
// of another kind, of which there is none.
func expectNewest(t *testing.T, ctx context.Context, log eventlog.Log, o events.Owner, seq uint64, id string) {
	t.Helper()
	for _, kind := range []events.SubjectKind{"", command(o, 0).Kind, events.KindGrant} {
		wanted := seq > 0 && kind != events.KindGrant
		r, found, err := log.OwnerNewest(ctx, events.FamilyLedger, o, kind)
		if err != nil || found != wanted || found && (r.Seq != seq || r.CommandID != id) {
			t.Fatalf("newest of kind %q: %+v, %v, %v; want sequence %d", kind, r, found, err, seq)
		}
	}
}

var errEnough = errors.New("enough")

// collect follows until n records have arrived.
func collect(ctx context.Context, log eventlog.Log, cfg eventlog.FollowConfig, n int) ([]eventlog.Record, error) {
	var got []eventlog.Record
	next := max(1, cfg.From)
	err := log.Follow(ctx, cfg, func(s eventlog.Slice) error {
		if s.First != next || s.Last < s.First || len(s.Records) == 0 || s.Records[len(s.Records)-1].Seq != s.Last {
			return fmt.Errorf("slice %d to %d with %d records, expected it to begin at %d", s.First, s.Last, len(s.Records), next)
		}
		next = s.Last + 1
		got = append(got, s.Records...)
		if len(got) >= n {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("follow ended after %d records: %w", len(got), err)
	}
	return got, nil
}

func follows(t *testing.T, ctx context.Context, f fixture) {
	const before, after = 500, 500
	o := logtest.Owner()
	last := fill(t, ctx, f.log, o, before)
	var group sync.WaitGroup
	group.Go(func() {
		for range after {
			seq, err := f.log.Append(ctx, command(o, last))
			if err != nil {
				t.Error(err)
				return
			}
			last = seq
		}
	})
	got, err := collect(ctx, f.log, eventlog.FollowConfig{MaxRecords: 64}, before+after)
	group.Wait()
	must(t, err)
	for i, r := range got {
		if r.Seq != uint64(i+1) || r.CommandID == "" || len(r.Payload) == 0 || r.Time.IsZero() {
			t.Fatalf("record %d: %+v", i, r)
		}
	}
}

func resumes(t *testing.T, ctx context.Context, f fixture) {
	fill(t, ctx, f.log, logtest.Owner(), 30)
	for _, from := range []uint64{1, 2, 17, 30} {
		got, err := collect(ctx, f.log, eventlog.FollowConfig{From: from}, int(30-from+1))
		must(t, err)
		if got[0].Seq != from {
			t.Fatalf("follow from %d began at %d", from, got[0].Seq)
		}
	}
}

func filters(t *testing.T, ctx context.Context, f fixture) {
	o := logtest.Owner()
	var last uint64
	for i := range 20 {
		a := command(o, last)
		if i%4 != 3 {
			a.Kind = events.KindGrant
		}
		last = mustAppend(t, ctx, f.log, a)
	}
	got, err := collect(ctx, f.log, eventlog.FollowConfig{Subject: "ledger.*.*.memory"}, 5)
	must(t, err)
	for i, r := range got {
		if r.Seq != uint64(4*i+4) {
			t.Fatalf("record %d has sequence %d", i, r.Seq)
		}
	}
}

func truncated(t *testing.T, ctx context.Context, f fixture) {
	mustAppend(t, ctx, f.log, command(logtest.Owner(), 0))
	err := f.log.Follow(ctx, eventlog.FollowConfig{From: 3}, func(eventlog.Slice) error { return nil })
	if !errors.Is(err, eventlog.ErrTruncated) {
		t.Fatalf("got %v", err)
	}
}

func unavailable(t *testing.T, ctx context.Context, f fixture) {
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := f.log.Append(ended, command(logtest.Owner(), 0))
	if !errors.Is(err, eventlog.ErrUnavailable) && !errors.Is(err, eventlog.ErrUncertain) {
		t.Fatalf("got %v", err)
	}
	if _, err := f.log.Head(ended); !errors.Is(err, eventlog.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
}

func restarts(t *testing.T, ctx context.Context, f fixture) {
	if f.restart == nil {
		t.Skip("this fixture can't restart its server")
	}
	o := logtest.Owner()
	last := fill(t, ctx, f.log, o, 50)
	caughtUp, following := make(chan struct{}), make(chan error, 1)
	go func() {
		following <- f.log.Follow(ctx, eventlog.FollowConfig{}, func(s eventlog.Slice) error {
			if s.First <= 50 && s.Last >= 50 {
				close(caughtUp)
			}
			if s.Last == 60 {
				return errEnough
			}
			return nil
		})
	}()
	select {
	case <-caughtUp:
	case err := <-following:
		t.Fatal(err)
	}
	f.restart()
	for range 10 {
		last = mustAppend(t, ctx, f.log, command(o, last))
	}
	expectHead(t, ctx, f.log, 60)
	if err := <-following; !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
}
