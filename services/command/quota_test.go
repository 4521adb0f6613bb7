package command

import (
	"errors"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/services/quota"
)

// say applies a message to a state.
func say(s *State, at time.Time, data ...events.Data) {
	batch := make([]events.Event, len(data))
	for i := range data {
		batch[i] = events.Event{Time: events.At(at), Data: data[i]}
	}
	s.Apply(s.Seq+1, batch)
}

// TestBytesPerDay: an owner writes so many sealed bytes on a UTC day, by whatever way. A
// refused write, and a repeated one, spend nothing.
func TestBytesPerDay(t *testing.T) {
	t.Parallel()
	const limit = 100
	s, now := NewState(testOwner), time.Date(2026, 3, 1, 23, 0, 0, 0, time.UTC)
	memory := func(bytes int) WriteMemory {
		return WriteMemory{MemoryID: "m", Metadata: canonical.Empty, SealedBytes: bytes, Seal: func(uint64) ([]byte, int) { return make([]byte, bytes), 2 }, BytesPerDay: limit}
	}
	decide := func(what string, c Command, wait time.Duration) {
		t.Helper()
		d, err := c.decide(s, now)
		var exceeded *quota.ExceededError
		switch {
		case wait > 0 && (!errors.As(err, &exceeded) || exceeded.Wait != wait || exceeded.Limit != limit || len(d.Events) > 0):
			t.Errorf("%s: %v, %v, want a wait of %v", what, d.Events, err, wait)
		case wait == 0 && err != nil:
			t.Errorf("%s: %v", what, err)
		}
		if len(d.Events) > 0 {
			say(s, now, d.Events...)
		}
	}
	batch := func(what string, wait time.Duration, sizes ...int) {
		t.Helper()
		c := &WriteBatch{}
		for _, bytes := range sizes {
			c.Memories = append(c.Memories, new(memory(bytes)))
		}
		decide(what, c, wait)
	}

	key := memory(40)
	key.IdempotencyKey = &events.Hash{1}
	decide("the first", &key, 0)
	decide("all of a day and one more", new(memory(61)), time.Hour)
	batch("a batch of one too many", time.Hour, 30, 31)
	batch("a batch", 0, 20, 30)
	decide("the last", new(memory(10)), 0)
	decide("one more", new(memory(1)), time.Hour)
	repeated := key
	repeated.first = &key.Written // as the executor finds it
	decide("a repetition", &repeated, 0)

	say(s, now, &events.GrantMinted{GrantID: "drop", Kind: events.GrantDrop, ExpiresAt: events.At(now.Add(24 * time.Hour)), MaxUses: 1})
	decide("a drop", &ConsumeDrop{GrantID: "drop", Memory: memory(1)}, time.Hour)
	if s.Grants["drop"].MaxUses != 1 || s.Grants["drop"].Used != 0 {
		t.Error("a refused write has spent the drop")
	}
	free := memory(1 << 20)
	free.BytesPerDay = 0
	decide("without a limit", &free, 0)

	now = now.Add(time.Hour)
	decide("the drop, the next day", &ConsumeDrop{GrantID: "drop", Memory: memory(60)}, 0)
	say(s, now.Add(-time.Second), &events.MemoryWritten{LeafIndex: s.Leaves, Sealed: make([]byte, 90)}) // by a replica with a slow clock
	tagged := memory(12)
	tagged.Metadata = canonical.Trusted([]byte(`{"n":"1234567890123456789012"}`)) // counts, without its braces
	decide("metadata", &tagged, 0)
	if s.DayBytes != 100 {
		t.Errorf("%d bytes of the day", s.DayBytes)
	}
	now = now.Add(-time.Second) // on the replica with the slow clock
	decide("too much there, too", new(memory(1)), time.Second)
	now = now.Add(-48 * time.Hour) // a clock that was days ahead is right again
	decide("before the newest day", new(memory(60)), 0)
	decide("and one too many", new(memory(41)), time.Second)
}
