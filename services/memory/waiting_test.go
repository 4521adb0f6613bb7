package memory

import (
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events"
)

// TestHeadSaysWhatWaits: the head of a log says since when its oldest memory waits for the
// chain, and calls that delayed after three times the wait for a batch.
func TestHeadSaysWhatWaits(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	w := h.writer(t)
	const wait = time.Minute
	now := time.UnixMilli(1_800_000_000_000)
	s := New(Config{Keys: h.keys, Pool: h.pool, AnchorMaxWait: wait, Now: func() time.Time { return now }})
	check := func(when string, since *events.Timestamp, delayed bool) {
		t.Helper()
		head, err := s.Head(t.Context(), Reader{Owner: w.owner})
		if err != nil || head.Delayed != delayed || (since == nil) != (head.WaitingSince == nil) || since != nil && *head.WaitingSince != *since {
			t.Errorf("%s: since %v, delayed %v, %v; want %v, %v", when, head.WaitingSince, head.Delayed, err, since, delayed)
		}
	}
	check("an empty log", nil, false)
	h.write(t, w, "one", "two", "three")
	first := w.written[0].CreatedAt
	check("just written", &first, false)
	now = first.Time().Add(3 * wait)
	check("three times the wait", &first, false)
	now = now.Add(time.Millisecond)
	check("longer", &first, true)
	batch := h.cut(t, w)
	check("a batch that is not confirmed", &first, true)
	h.write(t, w, "four")
	h.confirm(t, w, batch, 3)
	fourth := w.written[3].CreatedAt
	now = fourth.Time().Add(wait)
	check("the rest of the log", &fourth, false)
	last := h.cut(t, w)
	h.confirm(t, w, last, 4)
	check("all anchored", nil, false)
}
