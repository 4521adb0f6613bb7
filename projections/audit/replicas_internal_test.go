package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/memory-ledger/ledger/events/eventlog"
)

// node is a copy of a log. It can't read the messages in lost. If all messages to the end
// of the log are lost, it waits for them.
type node struct {
	messages, at uint64 // length of the log; messages in one slice
	lost         []uint64
	altered      uint64 // a message that differs on this node
	fails        int    // number of reads that fail at a lost message; negative: all
}

func (n *node) Head(context.Context) (uint64, error) { return n.messages, nil }

func (n *node) Read(ctx context.Context, cfg eventlog.ReadConfig, yield func(eventlog.Slice) error) error {
	for next := max(1, cfg.From); next <= cfg.To; {
		slice, at := eventlog.Slice{First: next}, n.at
		if cfg.MaxBytes > 0 {
			at = 1
		}
		for ; next <= cfg.To && next < slice.First+at; next++ {
			if n.fails != 0 && slices.Contains(n.lost, next) {
				got := next + 1
				for ; slices.Contains(n.lost, got); got++ {
				}
				if got > n.messages {
					<-ctx.Done() // the message can still arrive
					return ctx.Err()
				}
				n.fails--
				return &eventlog.GapError{Expected: next, Got: got}
			}
			text := fmt.Sprint(next)
			if next == n.altered {
				text = "another"
			}
			slice.Records, slice.Last = append(slice.Records, eventlog.Record{Seq: next, Payload: []byte(text)}), next
		}
		if err := yield(slice); err != nil {
			return err
		}
	}
	return nil
}

// TestAReadGoesOnAtAnotherReplica: if one replica can't read a message, the read is
// retried, and the message is reported. If no replica can read it, the read ends with an
// error.
func TestAReadGoesOnAtAnotherReplica(t *testing.T) {
	t.Parallel()
	for fails, good := range map[int]bool{0: true, 1: true, otherReplicas: true, -1: false} {
		log := &node{messages: 5000, at: 1000, lost: []uint64{2345}, fails: fails}
		s, next := &steady{Log: log, holes: map[uint64]bool{}}, uint64(1)
		err := s.Read(t.Context(), eventlog.ReadConfig{To: 5000}, func(slice eventlog.Slice) error {
			if slice.First != next {
				t.Errorf("%d came after %d", slice.First, next-1)
			}
			next = slice.Last + 1
			return nil
		})
		if good != (err == nil && next == 5001) || !good && !errors.Is(err, eventlog.ErrDamaged) {
			t.Errorf("%d fail: %v before %d", fails, err, next)
		}
		var found []uint64
		a := &auditor{report: &report{to: func(f Finding) { found = append(found, f.Seq) }}}
		if a.reportHoles(s); len(found) != min(1, fails) && good || len(found) > 0 && found[0] != 2345 {
			t.Errorf("%d fail: found %v", fails, found)
		}
	}
}
