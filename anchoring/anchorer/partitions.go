package anchorer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/memory-ledger/ledger/events"
)

// partitionCount is how many partitions owners are divided into.
const partitionCount = 256

// Partitions is a run of partitions: an anchorer works for the owners in them.
// The zero value stands for all.
type Partitions struct{ first, end int }

// AllPartitions is every partition there is.
var AllPartitions = Partitions{0, partitionCount}

var errPartitions = errors.New(`not a run of partitions, such as "00-7f"`)

// ParsePartitions reads the first and the last partition of a run, as subjects
// have them: "00-7f" is the lower half.
func ParsePartitions(text string) (Partitions, error) {
	first, last, found := strings.Cut(text, "-")
	a, okFirst := parsePartition(first)
	b, okLast := parsePartition(last)
	if !found || !okFirst || !okLast || a > b {
		return Partitions{}, fmt.Errorf("%w: %q", errPartitions, text)
	}
	return Partitions{a, b + 1}, nil
}

func parsePartition(text string) (int, bool) {
	n, err := strconv.ParseUint(text, 16, 8)
	return int(n), err == nil && len(text) == 2 && text == strings.ToLower(text)
}

// String is the form that ParsePartitions reads.
func (p Partitions) String() string { return fmt.Sprintf("%02x-%02x", p.first, p.end-1) }

// count returns how many there are.
func (p Partitions) count() int { return p.end - p.first }

func (p Partitions) has(partition int) bool { return p.first <= partition && partition < p.end }

// partitionOf returns an owner's partition.
func partitionOf(o events.Owner) int {
	n, ok := parsePartition(o.Partition())
	if !ok {
		panic("anchorer: a partition is two hex digits")
	}
	return n
}

// partitionIn reads the partition that a subject names. It reports false where
// there is none, which is for the subject's parser to complain of.
func partitionIn(subject string) (int, bool) {
	_, rest, _ := strings.Cut(subject, ".")
	partition, _, _ := strings.Cut(rest, ".")
	return parsePartition(partition)
}

// mark says up to which sequence a run of partitions is folded.
type mark struct {
	Partitions
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
func (m marks) wants(partition int, seq uint64) bool {
	for _, one := range m {
		if one.has(partition) {
			return seq > one.seq
		}
	}
	return false
}

// moved returns the marks after a fold up to seq.
func (m marks) moved(seq uint64) marks {
	if seq >= m.highest() {
		return marks{{Partitions{m[0].first, m[len(m)-1].end}, seq}}
	}
	out := make(marks, len(m))
	for i, one := range m {
		out[i] = mark{one.Partitions, max(one.seq, seq)}
	}
	return out
}
