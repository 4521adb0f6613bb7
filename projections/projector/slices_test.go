package projector_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
)

// stored is a follower of a log that is there already: slices as long as the bounds
// allow. Where the log ends it says what the test says, or waits.
type stored struct {
	records []eventlog.Record
	lost    error
}

func (l stored) Follow(ctx context.Context, cfg eventlog.FollowConfig, yield func(eventlog.Slice) error) error {
	for rest := l.records[cfg.From-1:]; len(rest) > 0; {
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

// alike makes a log of one owner's messages that are equally long; at most nine.
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

// subscribed follows until the test ends.
func subscribed(t *testing.T, s *projector.SliceSubscriber) <-chan *message.Message {
	t.Helper()
	sent, err := s.Subscribe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

// lengths takes every slice that is sent, each once the next has grown as far as it
// will, and returns how many messages each held.
func lengths(t *testing.T, sent <-chan *message.Message) (all []int) {
	t.Helper()
	for next := uint64(1); ; {
		synctest.Wait()
		select {
		case msg, open := <-sent:
			if !open {
				return all
			}
			slice, _ := projector.SliceOf(msg)
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

// TestSlicesGrowToTheirBounds and no further, however slow they are worked on: what is
// committed at once, and held in memory meanwhile, has an end.
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
				if _, err := s.Subscribe(t.Context(), ""); !errors.Is(err, projector.ErrSubscribed) {
					t.Errorf("a second reader: %v", err)
				}
			})
		})
	}
}

// TestWhatCameBeforeALogWasLostIsSeenThrough, and who asks is told why nothing follows.
func TestWhatCameBeforeALogWasLostIsSeenThrough(t *testing.T) {
	t.Parallel()
	lost := errors.New("gone")
	unread := alike(t, 5)
	unread[3].Payload = []byte("\x00{")
	for name, c := range map[string]struct {
		log    stored
		cfg    projector.SliceConfig
		whole  int
		reason string
	}{
		"while one is worked on":   {stored{alike(t, 5), lost}, projector.SliceConfig{MaxRecords: 4}, 5, "gone"},
		"while one is held back":   {stored{alike(t, 5), lost}, projector.SliceConfig{MaxRecords: 8, Pace: time.Second}, 5, "gone"},
		"a message can't be read":  {stored{unread, lost}, projector.SliceConfig{MaxRecords: 10}, 3, "sequence 4"},
		"that one begins a slice":  {stored{unread, lost}, projector.SliceConfig{MaxRecords: 1}, 3, "sequence 4"},
		"nothing was there at all": {stored{nil, lost}, projector.SliceConfig{}, 0, "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := projector.NewSliceSubscriber(c.log, c.cfg)
				defer s.Close()
				sent, whole := subscribed(t, s), 0
				for msg := range sent {
					slice, _ := projector.SliceOf(msg)
					if slice.First != uint64(whole+1) {
						t.Errorf("%d to %d after %d", slice.First, slice.Last, whole)
					}
					whole = int(slice.Last)
					synctest.Wait() // the log is lost meanwhile
					msg.Ack()
				}
				if err := s.Err(); whole != c.whole || err == nil || !strings.Contains(err.Error(), c.reason) {
					t.Errorf("sent up to %d, want %d, and then %v", whole, c.whole, err)
				}
			})
		})
	}
}

// TestASliceThatIsRefusedIsSentAgain, after a pause, and nothing before it is taken.
func TestASliceThatIsRefusedIsSentAgain(t *testing.T) {
	t.Parallel()
	records := alike(t, 4)
	synctest.Test(t, func(t *testing.T) {
		s := projector.NewSliceSubscriber(stored{records: records}, projector.SliceConfig{MaxRecords: 4, RetryPause: time.Second})
		defer s.Close()
		sent, start := subscribed(t, s), time.Now()
		var got []string
		for try := range 3 {
			msg := <-sent
			got = append(got, fmt.Sprintf("%s after %s", msg.UUID, time.Since(start)))
			if try == 0 {
				msg.Nack()
			} else {
				msg.Ack()
			}
		}
		if want := []string{"1-2 after 0s", "1-2 after 1s", "3-4 after 1s"}; !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
	})
}
