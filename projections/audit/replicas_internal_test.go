package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
)

// node is a copy of a log. It can't read the messages in lost. If all messages to the end
// of the log are lost, it waits for them.
type node struct {
	messages, at uint64 // length of the log; messages in one slice
	lost         []uint64
	altered      uint64 // a message that differs on this node
	fails        int    // number of reads that fail at a lost message; negative: all
	away         uint64 // the message from which on the node no longer answers
}

func (n *node) Head(context.Context) (uint64, error) { return n.messages, nil }

func (n *node) Lag() time.Duration { return 0 }

func (n *node) Read(ctx context.Context, cfg eventlog.ReadConfig, yield func(eventlog.Slice) error) error {
	for next := max(1, cfg.From); next <= cfg.To; {
		slice, at := eventlog.Slice{First: next}, n.at
		if cfg.MaxBytes > 0 {
			at = 1
		}
		for ; next <= cfg.To && next < slice.First+at; next++ {
			if next == n.away {
				<-ctx.Done()
				return ctx.Err()
			}
			if n.fails != 0 && slices.Contains(n.lost, next) {
				got := next + 1
				for ; slices.Contains(n.lost, got); got++ {
				}
				if got > n.messages {
					<-ctx.Done() // the message can still arrive
					return context.Cause(ctx)
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

// TestEachReplicaIsRead: each node is read completely. A finding names the node and the
// missing messages, at any place in the log.
func TestEachReplicaIsRead(t *testing.T) {
	t.Parallel()
	const messages uint64 = 3*compared - 100
	var gaps []uint64 // so many that the read ends with the last of them, where a digest ends
	var reported []string
	for i := range uint64(maxGaps) {
		gaps = append(gaps, compared-2*(maxGaps-1-i))
		reported = append(reported, fmt.Sprintf("node b can't read sequence %d", gaps[i]))
	}
	for name, c := range map[string]struct {
		node node
		want []string
	}{
		"whole":      {node{}, nil},
		"one":        {node{lost: []uint64{777}}, []string{"node b can't read sequence 777"}},
		"the first":  {node{lost: []uint64{1}}, []string{"node b can't read sequence 1"}},
		"several":    {node{lost: []uint64{2, 3, 5000, 5001, 9000}}, []string{"node b can't read sequences 2 to 3", "node b can't read sequences 5000 to 5001", "node b can't read sequence 9000"}},
		"the newest": {node{lost: []uint64{messages - 1, messages}}, []string{fmt.Sprintf("node b can't read sequences %d to %d", messages-1, messages)}},
		"another":    {node{altered: 5000}, []string{"nodes a and b hold different messages among sequences 4097 to 8192"}},
		"too many":   {node{lost: gaps}, reported},
		"away":       {node{away: 5001}, nil},
		"another where a digest ends": {node{messages: 2 * compared, altered: 2 * compared}, []string{
			"nodes a and b hold different messages among sequences 4097 to 8192"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				messages := cmp.Or(c.node.messages, messages)
				c.node.messages, c.node.at, c.node.fails = messages, 1000, -1
				whole := &node{messages: messages, at: 700}
				var found []string
				a := &auditor{report: &report{to: func(f Finding) { found = append(found, f.Detail) }}}
				a.cfg = Config{Log: &c.node, Patience: time.Minute, Replicas: []Replica{{Node: "a", Log: whole}, {Node: "b", Log: &c.node}, {Node: "c", Missing: "it is away"}}}
				if name == "one" || name == "away" { // also test a damaged node that is read first
					slices.Reverse(a.cfg.Replicas)
				}
				if err := a.checkReplicas(t.Context(), messages); err != nil || !slices.Equal(found, c.want) {
					t.Errorf("found %q, %v; want %q", found, err, c.want)
				}
				if got := a.report.summary.Incomplete; len(got) != 1+min(1, int(c.node.away)) {
					t.Errorf("said of those that are away: %v", got)
				}
				if err := a.cfg.Log.Read(t.Context(), eventlog.ReadConfig{To: messages}, func(eventlog.Slice) error { return nil }); err != nil {
					t.Errorf("the audit reads from one that is not whole: %v", err)
				}
			})
		})
	}
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
