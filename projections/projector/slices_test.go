package projector_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
)

// stored is a follower of a complete log. Its slices are as long as the bounds allow. At
// the end of the log it returns lost, if set, or waits.
type stored struct {
	records []eventlog.Record
	lost    error
}

func (l stored) Follow(ctx context.Context, cfg eventlog.FollowConfig, yield func(eventlog.Slice) error) error {
	for rest := l.records[max(1, cfg.From)-1:]; len(rest) > 0; {
		n, bytes := 0, 0
		for n < len(rest) && (cfg.MaxRecords <= 0 || n < cfg.MaxRecords) && bytes < cfg.MaxBytes {
			bytes += len(rest[n].Payload)
			n++
		}
		if err := yield(eventlog.Slice{First: rest[0].Seq, Last: rest[n-1].Seq, Records: rest[:n]}); err != nil {
			return err
		}
		rest = rest[n:]
	}
	if l.lost != nil {
		return l.lost
	}
	<-ctx.Done()
	return nil
}

// alike makes a log of at most nine messages of one owner, all equally long.
func alike(t *testing.T, n int) []eventlog.Record {
	t.Helper()
	a := fixture.NewActor()
	records := make([]eventlog.Record, n)
	for i := range records {
		m := a.Write(`{}`)
		records[i] = eventlog.Record{Seq: uint64(i + 1), Subject: m.Subject(), Payload: m.Payload(t)}
		if len(records[i].Payload) != len(records[0].Payload) {
			t.Fatalf("message %d is of another length", i)
		}
	}
	return records
}

// subscribed subscribes until the test ends.
func subscribed(t *testing.T, s *projector.SliceSubscriber) <-chan *message.Message {
	t.Helper()
	sent, err := s.Subscribe(t.Context(), "")
	must(t, err)
	return sent
}

func sliceOf(t *testing.T, msg *message.Message) eventlog.Slice {
	t.Helper()
	slice, err := projector.SliceOf(msg.Payload)
	must(t, err)
	return slice
}

// lengths takes every slice that is sent, each after the next has stopped growing, and
// returns the number of messages in each.
func lengths(t *testing.T, sent <-chan *message.Message) (all []int) {
	t.Helper()
	for next := uint64(1); ; {
		synctest.Wait()
		select {
		case msg, open := <-sent:
			if !open {
				return all
			}
			slice := sliceOf(t, msg)
			if slice.First != next || slice.Last-slice.First+1 != uint64(len(slice.Records)) {
				t.Errorf("%d messages from %d to %d, after %d", len(slice.Records), slice.First, slice.Last, next-1)
			}
			all, next = append(all, len(slice.Records)), slice.Last+1
			synctest.Wait()
			msg.Ack()
		default:
			return all
		}
	}
}

// TestSlicesGrowToTheirBounds and no further, however slowly they are applied. So the
// memory and the size of a commit are bounded.
func TestSlicesGrowToTheirBounds(t *testing.T) {
	t.Parallel()
	records := alike(t, 9)
	size := len(records[0].Payload)
	for name, c := range map[string]struct {
		cfg  projector.SliceConfig
		want []int
	}{
		"one":             {projector.SliceConfig{MaxRecords: 1}, []int{1, 1, 1, 1, 1, 1, 1, 1, 1}},
		"four":            {projector.SliceConfig{MaxRecords: 4}, []int{2, 4, 3}},
		"five":            {projector.SliceConfig{MaxRecords: 5}, []int{3, 3, 3}},
		"bytes of four":   {projector.SliceConfig{MaxBytes: 4 * size}, []int{2, 4, 3}},
		"four, with pace": {projector.SliceConfig{MaxRecords: 4, Pace: time.Second}, []int{2, 4, 3}},
		"more than are":   {projector.SliceConfig{}, []int{9}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := projector.NewSliceSubscriber(stored{records: records}, c.cfg)
				defer s.Close()
				if got := lengths(t, subscribed(t, s)); !slices.Equal(got, c.want) {
					t.Errorf("slices of %v, want %v", got, c.want)
				}
			})
		})
	}
}
