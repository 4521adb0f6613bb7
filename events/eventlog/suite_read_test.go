package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/eventlog/logtest"
)

// manyParts is more messages than one batch or one consumer's prefetch holds.
const manyParts = 2500

// fillForParts appends messages, and returns their command ids.
func fillForParts(t *testing.T, ctx context.Context, log eventlog.Log, n int) []string {
	t.Helper()
	o := logtest.Owner()
	ids := make([]string, 0, n)
	for last := uint64(0); len(ids) < n; {
		a := command(o, last)
		last = mustAppend(t, ctx, log, a)
		ids = append(ids, a.CommandID)
	}
	return ids
}

func readsParts(t *testing.T, ctx context.Context, f fixture) {
	ids := fillForParts(t, ctx, f.log, manyParts)
	const maxBytes = 1500 // of payloads of 28 bytes
	for _, part := range [][2]uint64{{0, 2500}, {1, 2499}, {2, 2500}, {700, 2400}, {1, 1}, {2500, 2500}, {10, 9}} {
		next := max(1, part[0])
		err := f.log.Read(ctx, eventlog.ReadConfig{From: part[0], To: part[1], MaxBytes: maxBytes}, func(s eventlog.Slice) error {
			if s.First != next || s.Last != s.First+uint64(len(s.Records))-1 || len(s.Records) == 0 {
				return fmt.Errorf("slice from %d to %d of %d records, expected it to begin at %d", s.First, s.Last, len(s.Records), next)
			}
			size := 0
			for i, r := range s.Records {
				if r.Seq != next || r.CommandID != ids[next-1] || r.Time.IsZero() || r.Subject == "" || len(r.Payload) == 0 {
					return fmt.Errorf("record %d of the slice at %d: %+v", i, s.First, r)
				}
				if size >= maxBytes {
					return fmt.Errorf("slice at %d goes on after %d bytes", s.First, size)
				}
				size += len(r.Payload)
				next++
			}
			return nil
		})
		if err != nil {
			t.Fatalf("read from %d to %d: %v", part[0], part[1], err)
		}
		if next != part[1]+1 {
			t.Fatalf("read from %d to %d ended before %d", part[0], part[1], next)
		}
	}
}

func readsFiltered(t *testing.T, ctx context.Context, f fixture) {
	mine, others, stranger := logtest.Owner(), logtest.Owner(), logtest.Owner()
	first := mustAppend(t, ctx, f.log, command(mine, 0))
	between := mustAppend(t, ctx, f.log, command(others, 0))
	second := mustAppend(t, ctx, f.log, command(mine, first))
	mustAppend(t, ctx, f.log, command(mine, second))
	for _, part := range []struct {
		of       events.Owner
		from, to uint64
		want     []uint64
	}{
		{mine, 0, second, []uint64{first, second}},
		{mine, between, second, []uint64{second}},
		{mine, first, between, []uint64{first}},
		{mine, between, between, nil}, // later messages would pass
		{others, second, second, nil},
		{stranger, 0, second, nil},
	} {
		var got []uint64
		err := f.log.Read(ctx, eventlog.ReadConfig{From: part.from, To: part.to, Subject: events.OwnerFilter(events.FamilyLedger, part.of)}, func(s eventlog.Slice) error {
			for _, r := range s.Records {
				got = append(got, r.Seq)
			}
			return nil
		})
		if err != nil || !slices.Equal(got, part.want) {
			t.Errorf("from %d to %d: read %v, %v, want %v", part.from, part.to, got, err, part.want)
		}
	}
}

func readsOn(t *testing.T, ctx context.Context, f fixture) {
	if f.restart == nil {
		t.Skip("this fixture can't restart its server")
	}
	ids := fillForParts(t, ctx, f.log, manyParts)
	next := uint64(1)
	err := f.log.Read(ctx, eventlog.ReadConfig{To: uint64(len(ids)), MaxBytes: 1000}, func(s eventlog.Slice) error {
		if next == 1 {
			f.restart()
		}
		for _, r := range s.Records {
			if r.Seq != next || r.CommandID != ids[next-1] {
				return fmt.Errorf("sequence %d instead of %d", r.Seq, next)
			}
			next++
		}
		return nil
	})
	if err != nil || next != uint64(len(ids))+1 {
		t.Fatalf("read up to %d: %v", next, err)
	}
}

func readsEnd(t *testing.T, ctx context.Context, f fixture) {
	ids := fillForParts(t, ctx, f.log, 100)
	err := f.log.Read(ctx, eventlog.ReadConfig{To: uint64(len(ids)), MaxBytes: 1000}, func(eventlog.Slice) error { return errEnough })
	if !errors.Is(err, errEnough) {
		t.Fatalf("got %v", err)
	}
	// The log does not hold the last requested message. Read waits for it, but not
	// forever, and never takes its absence for the end.
	for _, from := range []int{1, len(ids)} {
		ended, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		read := 0
		err = f.log.Read(ended, eventlog.ReadConfig{From: uint64(from), To: uint64(len(ids)) + 1}, func(s eventlog.Slice) error {
			read += len(s.Records)
			return nil
		})
		cancel()
		if !errors.Is(err, eventlog.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) || read > len(ids) {
			t.Fatalf("from %d: read %d of %d, %v", from, read, len(ids), err)
		}
	}
}
