package anchorer

import "github.com/memory-ledger/ledger/events/partition"

// mark says up to which sequence a run of partitions is folded.
type mark struct {
	partition.Run
	seq uint64
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
func (m marks) moved(seq uint64) marks {
	if seq >= m.highest() {
		return marks{{partition.Run{First: m[0].First, End: m[len(m)-1].End}, seq}}
	}
	out := make(marks, len(m))
	for i, one := range m {
		out[i] = mark{one.Run, max(one.seq, seq)}
	}
	return out
}
