package audit

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"time"

	"github.com/memory-ledger/ledger/events/eventlog"
)

// Replica is the log as one node keeps it.
type Replica struct {
	Node string
	Log  eventlog.PartReader
	// Missing is why the replica can't be read now; empty if it can be read.
	Missing string
}

const (
	// compared is the number of messages in one digest. Replicas are compared by digest.
	compared = 4096
	// maxGaps is the number of gaps after which the read of a replica stops.
	maxGaps = 100
	// otherReplicas is how often a read is retried for a message that one replica could
	// not read. If one of three replicas is damaged, the chance that it answers all
	// retries is about 1 in 500,000.
	otherReplicas = 12
)

// checkReplicas reads the whole log from each node. The audit then reads from a node
// that has the whole log.
func (a *auditor) checkReplicas(ctx context.Context, to uint64) error {
	var first *copyOfLog
	var whole eventlog.PartReader
	for _, r := range a.cfg.Replicas {
		if r.Missing != "" {
			a.report.incomplete("the replica of the log on node %s: %s", r.Node, r.Missing)
			continue
		}
		c := &copyOfLog{node: r.Node, hash: sha256.New(), digests: map[uint64][sha256.Size]byte{}}
		switch err := a.readReplica(ctx, r, to, c); {
		case errors.Is(err, errAway):
			a.report.incomplete("the replica of the log on node %s: %v", r.Node, err)
			c.holes++
		case err != nil:
			return fmt.Errorf("read the replica on node %s: %w", r.Node, err)
		}
		if c.holes == 0 && whole == nil {
			whole = r.Log
		}
		if first == nil {
			first = c
			continue
		}
		a.compareReplicas(first, c, to)
	}
	if whole != nil {
		a.cfg.Log = logOf{a.cfg.Log, whole}
	}
	return nil
}

type logOf struct {
	eventlog.HeadReader
	eventlog.PartReader
}

// copyOfLog is the content of a replica, as digests.
type copyOfLog struct {
	node    string
	holes   int
	hash    hash.Hash // of the messages since the last digest
	digests map[uint64][sha256.Size]byte
	broken  bool // a message is missing since the last digest
}

// add adds the next message to the digest; r is nil for a missing message.
func (c *copyOfLog) add(seq uint64, r *eventlog.Record) {
	if r == nil {
		c.broken = true
	} else {
		var head [16]byte
		binary.BigEndian.PutUint64(head[:], seq)
		binary.BigEndian.PutUint64(head[8:], uint64(len(r.Payload)))
		for _, part := range [][]byte{head[:], []byte(r.Subject), {0}, []byte(r.CommandID), {0}, r.Payload} {
			c.hash.Write(part)
		}
	}
	if seq%compared == 0 {
		c.close(seq)
	}
}

func (c *copyOfLog) close(seq uint64) {
	if !c.broken {
		c.digests[seq] = [sha256.Size]byte(c.hash.Sum(nil))
	}
	c.broken = false
	c.hash.Reset()
}

// readReplica reads the whole replica, and reports missing messages.
func (a *auditor) readReplica(ctx context.Context, r Replica, to uint64, c *copyOfLog) error {
	next, sliceBytes := uint64(1), 0
	read := func(until uint64) error {
		return readUntilStalled(ctx, r.Log, a.cfg.Patience, eventlog.ReadConfig{From: next, To: until, MaxBytes: sliceBytes}, func(s eventlog.Slice) error {
			for i := range s.Records {
				c.add(s.Records[i].Seq, &s.Records[i])
				next = s.Records[i].Seq + 1
			}
			if a.cfg.Progress != nil {
				a.cfg.Progress(next-1, to)
			}
			return nil
		})
	}
	missing := func(until uint64) {
		a.report.wrong(CheckReplica, "", next, "node %s can't read %s", r.Node, span(next, until))
		for ; next <= until; next++ {
			c.add(next, nil)
		}
		c.holes++
	}
	for next <= to && c.holes < maxGaps {
		err := read(to)
		var gap *eventlog.GapError
		switch {
		case errors.As(err, &gap):
			if next < gap.Expected { // read the messages before the gap, which arrived with it
				if err := read(gap.Expected - 1); err != nil {
					return err
				}
			}
			missing(min(gap.Got-1, to))
		case errors.Is(err, errStalled) && sliceBytes == 0:
			sliceBytes = 1 // read again, one message at a time: the stalled slice was lost
		case errors.Is(err, errStalled):
			missing(to)
		case err != nil:
			return err
		}
	}
	if next > to && to%compared != 0 { // add has closed the last digest of a multiple
		c.close(to)
	}
	return nil
}

func span(from, to uint64) string {
	if from == to {
		return fmt.Sprintf("sequence %d", from)
	}
	return fmt.Sprintf("sequences %d to %d", from, to)
}

var (
	// errStalled means that a node sends no more messages.
	errStalled = errors.New("nothing more came")
	// errAway means that a node has stopped answering.
	errAway = errors.New("it went away while it was read")
)

// readUntilStalled reads. If nothing arrives for the duration patience, it returns errAway, or
// errStalled if the read was waiting for a node that answers. A node that can't read its newest
// messages waits for them, so without this limit its reader would wait forever.
func readUntilStalled(ctx context.Context, log eventlog.PartReader, patience time.Duration, cfg eventlog.ReadConfig, yield func(eventlog.Slice) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(patience, func() { cancel(errStalled) })
	defer stalled.Stop()
	err := log.Read(ctx, cfg, func(s eventlog.Slice) error {
		stalled.Stop()
		defer stalled.Reset(patience)
		return yield(s)
	})
	if err != nil && errors.Is(context.Cause(ctx), errStalled) && !errors.Is(err, errStalled) {
		return errAway
	}
	return err
}

// compareReplicas compares the digests that both nodes have. A node has no digest for
// messages among which it has a gap.
func (a *auditor) compareReplicas(x, y *copyOfLog, to uint64) {
	for seq, digest := range x.digests {
		if other, ok := y.digests[seq]; ok && other != digest {
			from := (seq-1)/compared*compared + 1
			a.report.wrong(CheckReplica, "", from, "nodes %s and %s hold different messages among %s", x.node, y.node, span(from, min(seq, to)))
		}
	}
}

// steady retries a read if one replica could not read a message: each replica answers
// some of the reads. If no replica can read the message, the read ends with an error.
type steady struct {
	Log
	holes map[uint64]bool // sequences that one replica could not read, and another could
}

func (s *steady) Read(ctx context.Context, cfg eventlog.ReadConfig, yield func(eventlog.Slice) error) error {
	cfg.From = max(1, cfg.From)
	var hole *eventlog.GapError
	for failed := 0; ; failed++ {
		err := s.Log.Read(ctx, cfg, func(slice eventlog.Slice) error {
			if hole != nil && slice.Last >= hole.Expected {
				s.holes[hole.Expected] = true
				hole, failed = nil, 0
			}
			cfg.From = slice.Last + 1
			return yield(slice)
		})
		if !errors.As(err, &hole) || failed >= otherReplicas {
			return err
		}
	}
}

// reportHoles reports the messages that some replica could not read. The answers do not
// say which replica it was.
func (a *auditor) reportHoles(s *steady) {
	for _, seq := range slices.Sorted(maps.Keys(s.holes)) {
		a.report.add(Finding{Check: CheckReplica, Seq: seq, Detail: "a replica of the log can't read it, another can: " +
			"`ledger verify --replicas`, with the administrator's credentials, names the node"})
	}
}
