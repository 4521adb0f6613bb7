package anchorer

import (
	"time"

	"github.com/memory-ledger/ledger/events/partition"
)

// mark says up to which sequence a run of partitions is folded, and when the
// log stored the message there, to know the log by.
type mark struct {
	partition.Run
	seq    uint64
	stored time.Time
}

// marks are the marks of the partitions that an anchorer works for, which it
// may have taken over from several others. They become one as soon as the fold
// has come to where the foremost of those was.
type marks []mark

// lowest is the sequence that the fold goes on after.
func (m marks) lowest() uint64 {
	seq := m[0].seq
	for _, one := range m {
		seq = min(seq, one.seq)
	}
	return seq
}

// highest is the sequence that the foremost are folded up to.
func (m marks) highest() (seq uint64) {
	for _, one := range m {
		seq = max(seq, one.seq)
	}
	return seq
}

// wants reports whether a message is to be folded: one of these partitions,
// that was not folded before.
func (m marks) wants(p int, seq uint64) bool {
	for _, one := range m {
		if one.Has(p) {
			return seq > one.seq
		}
	}
	return false
}

// moved returns the marks after a fold up to seq.
func (m marks) moved(seq uint64, stored time.Time) marks {
	if seq >= m.highest() {
		return marks{{m.run(), seq, stored}}
	}
	out := make(marks, len(m))
	for i, one := range m {
		if out[i] = one; one.seq < seq {
			out[i] = mark{one.Run, seq, stored}
		}
	}
	return out
}

// run is all their partitions.
func (m marks) run() partition.Run { return partition.Run{First: m[0].First, End: m[len(m)-1].End} }

// proofs are the messages that the log must show again, by sequence, with the
// times that it stored them at.
func (m marks) proofs() map[uint64]time.Time {
	p := map[uint64]time.Time{}
	for _, one := range m {
		if one.seq > 0 {
			p[one.seq] = one.stored
		}
	}
	return p
}
