package projector_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/projector"
)

// fed is a follower that hands over the test's messages, one at a time.
type fed struct{ records chan eventlog.Record }

func (f fed) Follow(ctx context.Context, _ eventlog.FollowConfig, yield func(eventlog.Slice) error) error {
	for {
		select {
		case r := <-f.records:
			if err := yield(eventlog.Slice{First: r.Seq, Last: r.Seq, Records: []eventlog.Record{r}}); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// TestThePaceOfSlices: a message after a pause is sent at once, messages that follow
// closely are sent together, and a waiting reader ends the wait.
func TestThePaceOfSlices(t *testing.T) {
	t.Parallel()
	messages := fixture.NewHistory(1, 2).Messages(10)
	records := make([]eventlog.Record, len(messages))
	for i, m := range messages {
		records[i] = eventlog.Record{Seq: uint64(i + 1), Subject: m.Subject(), Payload: m.Payload(t)}
	}
	synctest.Test(t, func(t *testing.T) {
		const pace = 40 * time.Millisecond
		source := fed{make(chan eventlog.Record)}
		awaited := projector.NewAwaited()
		subscriber := projector.NewSliceSubscriber(source, projector.SliceConfig{Pace: pace, Awaited: awaited})
		slices, err := subscriber.Subscribe(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		defer subscriber.Close()
		start := time.Now()
		expect := func(first, last uint64, after time.Duration) {
			t.Helper()
			msg := <-slices
			slice := sliceOf(t, msg)
			if slice.First != first || slice.Last != last || time.Since(start) != after {
				t.Errorf("got %d to %d after %s, want %d to %d after %s", slice.First, slice.Last, time.Since(start), first, last, after)
			}
			msg.Ack()
		}
		source.records <- records[0]
		expect(1, 1, 0)
		for _, r := range records[1:4] {
			source.records <- r
		}
		expect(2, 4, pace)
		source.records <- records[4]
		synctest.Wait() // the message is held back
		awaited.Await(4)
		synctest.Wait() // waiting for a sent message changes nothing
		awaited.Await(5)
		expect(5, 5, pace)
		// The awaited message was sent. No caller waits for the next one.
		source.records <- records[5]
		expect(6, 6, 2*pace)
		// The awaited message has not arrived yet: each message is sent at once until it
		// has.
		awaited.Await(8)
		awaited.Await(7) // waiting for an older message does not undo the newer wait
		for seq := uint64(7); seq <= 8; seq++ {
			source.records <- records[seq-1]
			expect(seq, seq, 2*pace)
		}
		source.records <- records[8]
		expect(9, 9, 3*pace)
		time.Sleep(time.Second) // of the bubble's clock
		source.records <- records[9]
		expect(10, 10, time.Second+3*pace)
	})
}
