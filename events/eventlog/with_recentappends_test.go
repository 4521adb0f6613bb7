package eventlog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
	"github.com/memory-ledger/ledger/infra/localnats/natstest"
)

// withMemory returns a log with recent appends, and another process's view of the same log.
func withMemory(t *testing.T) (own, others eventlog.Log) {
	t.Helper()
	server := natstest.Start(t)
	log, _ := open(t, server.URL())
	others, _ = open(t, server.URL())
	return eventlog.WithRecentAppends(log), others
}

// fill appends for several owners at a time until stop is called, or until the test
// ends.
func fill(t *testing.T, log eventlog.Log, payload []byte) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			owner, last := logtest.Owner(), uint64(0)
			for ctx.Err() == nil {
				seq, err := eventlog.AppendAndWait(context.WithoutCancel(ctx), log, eventlog.Append{
					Family: events.FamilyLedger, Owner: owner, Kind: events.KindMemory,
					CommandID: logtest.CommandID(), Expected: last, Payload: payload,
				})
				if err != nil {
					t.Error(err)
					return
				}
				last = seq
			}
		})
	}
	stop = func() {
		cancel()
		writers.Wait()
	}
	t.Cleanup(stop)
	return stop
}

var errSeen = errors.New("seen")

// watched follows the log, checks that every record arrives once and in order, and
// passes each record to seen until seen returns true.
func watched(ctx context.Context, log eventlog.Log, seen func(r *eventlog.Record) bool) error {
	next := uint64(1)
	err := log.Follow(ctx, eventlog.FollowConfig{}, func(s eventlog.Slice) error {
		if s.First != next || len(s.Records) == 0 || s.Last != s.Records[len(s.Records)-1].Seq {
			return fmt.Errorf("slice from %d to %d of %d records, expected one from %d", s.First, s.Last, len(s.Records), next)
		}
		for i := range s.Records {
			r := &s.Records[i]
			if r.Seq != next || r.CommandID == "" {
				return fmt.Errorf("sequence %d (%q) instead of %d", r.Seq, r.CommandID, next)
			}
			next++
			if seen(r) {
				return errSeen
			}
		}
		return nil
	})
	if errors.Is(err, errSeen) {
		return nil
	}
	return fmt.Errorf("ended at %d: %w", next, errors.Join(err, ctx.Err()))
}

// fromMemory reports whether a record came from memory: a record from the log has a
// time.
func fromMemory(r *eventlog.Record) bool { return r.Time.IsZero() }

// A follower switches to memory under load and gets the same bytes there as the log
// holds. It gets the messages that other processes append in between, or afterwards,
// from the log.
func TestRecentAppendsAreUsedAndLeft(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	own, others := withMemory(t)
	stop := fill(t, own, []byte("own"))

	const foreign = 20
	fromTheTail, fromOthers, turned := 0, 0, 0
	foreigner, last := logtest.Owner(), uint64(0)
	intrude := func() {
		var err error
		if last, err = eventlog.AppendAndWait(ctx, others, eventlog.Append{
			Family: events.FamilyChain, Owner: foreigner, Kind: events.KindBatch,
			CommandID: logtest.CommandID(), Expected: last, Payload: []byte("foreign"),
		}); err != nil {
			t.Error(err)
		}
	}
	var got []eventlog.Record
	err := watched(ctx, own, func(r *eventlog.Record) bool {
		got = append(got, *r)
		switch {
		case bytes.Equal(r.Payload, []byte("foreign")):
			if fromMemory(r) {
				t.Error("another process's message is in memory")
			}
			if fromOthers++; fromOthers == foreign {
				return true
			}
			if fromOthers > 2 {
				intrude() // one after the other, and no other writer
			}
		case fromMemory(r):
			fromTheTail++
			switch {
			case turned < 2 && fromTheTail >= 100*(turned+1):
				turned++
				intrude() // in the middle
			case turned == 2 && fromOthers == 2:
				turned++
				stop()
				intrude() // while everything else is quiet
			}
		}
		return false
	})
	if err != nil {
		t.Fatalf("%v; %d from memory, %d of others", err, fromTheTail, fromOthers)
	}
	i := 0
	err = watched(ctx, others, func(r *eventlog.Record) bool {
		if same := got[i]; same.Subject != r.Subject || same.CommandID != r.CommandID || !bytes.Equal(same.Payload, r.Payload) {
			t.Errorf("sequence %d: %+v, the log has %+v", r.Seq, same, r)
		}
		i++
		return i == len(got)
	})
	if err != nil {
		t.Error(err)
	}
}

// Messages that memory does not keep come from the log.
func TestRecentAppendsLeaveLargeMessagesOut(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	own, _ := withMemory(t)
	fill(t, own, []byte("small"))
	large := bytes.Repeat([]byte("x"), 1<<16)
	appended := false
	err := watched(ctx, own, func(r *eventlog.Record) bool {
		if len(r.Payload) == len(large) {
			return !fromMemory(r)
		}
		if fromMemory(r) && !appended {
			appended = true
			if _, err := eventlog.AppendAndWait(ctx, own, eventlog.Append{
				Family: events.FamilyLedger, Owner: logtest.Owner(), Kind: events.KindMemory,
				CommandID: logtest.CommandID(), Payload: large,
			}); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	if err != nil {
		t.Error(err)
	}
}

// A follower that can't keep up falls back to the log and misses no message.
func TestRecentAppendsAreOutrun(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	own, others := withMemory(t)
	fill(t, own, []byte("own"))
	waited := false
	err := watched(ctx, own, func(r *eventlog.Record) bool {
		if !waited && fromMemory(r) {
			waited = true
			for head, target := uint64(0), r.Seq+5000; head < target; {
				var err error
				if head, err = others.Head(ctx); err != nil {
					t.Error(err)
					return true
				}
			}
			return false
		}
		return waited && !fromMemory(r)
	})
	if err != nil {
		t.Error(err)
	}
}
