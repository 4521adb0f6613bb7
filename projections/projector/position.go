package projector

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/memory-ledger/ledger/events"
)

// Mark says up to which sequence a run of partitions is projected.
type Mark struct {
	events.Partitions
	Seq    uint64
	Stored time.Time // when the log stored the message at Seq; zero if unknown
}

// Vector says how much of the log the read models hold. That is not one sequence:
// projectors share the owners by partition, and each projector works at its own pace. So
// each run of partitions has its own sequence. The runs of the marks are adjacent and in
// order.
//
// Read models at a Vector hold a message of partition p at sequence n if and only if n is
// not beyond the vector's sequence for p. Compare read models with the log, or with each
// other, at the same vector: then no projector has to wait for another.
//
// Methods that return a vector join adjacent runs that are at the same sequence.
type Vector []Mark

// AllAt returns a vector with every partition at one sequence.
func AllAt(seq uint64) Vector { return Vector{{Partitions: events.AllPartitions, Seq: seq}} }

// Run returns the partitions that the vector covers.
func (v Vector) Run() events.Partitions {
	if len(v) == 0 {
		return events.Partitions{}
	}
	return events.Partitions{First: v[0].First, End: v[len(v)-1].End}
}

// Covers reports whether the marks cover each partition of the run exactly once, and no
// other partition.
func (v Vector) Covers(run events.Partitions) bool {
	next := run.First
	for _, m := range v {
		if m.First != next || m.End <= m.First {
			return false
		}
		next = m.End
	}
	return next == run.End
}

// Index returns the index of the mark that covers a partition, or -1 if none does.
func (v Vector) Index(p int) int {
	i, _ := slices.BinarySearchFunc(v, p, func(m Mark, p int) int { return m.End - 1 - p })
	if i < len(v) && v[i].Has(p) {
		return i
	}
	return -1
}

// At returns the sequence of a partition, or 0 if the vector does not cover the
// partition.
func (v Vector) At(p int) uint64 {
	if i := v.Index(p); i >= 0 {
		return v[i].Seq
	}
	return 0
}

// Wants reports whether a message must still be projected: the vector covers its
// partition, and the message is not projected yet.
func (v Vector) Wants(p int, seq uint64) bool {
	i := v.Index(p)
	return i >= 0 && seq > v[i].Seq
}

// Lowest returns the sequence up to which every partition is projected.
func (v Vector) Lowest() uint64 {
	if len(v) == 0 {
		return 0
	}
	lowest := v[0].Seq
	for _, m := range v[1:] {
		lowest = min(lowest, m.Seq)
	}
	return lowest
}

// Highest returns the sequence beyond which nothing is projected.
func (v Vector) Highest() (highest uint64) {
	for _, m := range v {
		highest = max(highest, m.Seq)
	}
	return highest
}

// Of returns the part of the vector that covers a run. It cuts marks that reach beyond
// the run.
func (v Vector) Of(run events.Partitions) Vector {
	var of Vector
	for _, m := range v {
		if m.First, m.End = max(m.First, run.First), min(m.End, run.End); m.First < m.End {
			of = append(of, m)
		}
	}
	return of
}

// Joined returns an equivalent vector with the fewest marks.
func (v Vector) Joined() Vector {
	var joined Vector
	for _, m := range v {
		last := len(joined) - 1
		if last < 0 || joined[last].Seq != m.Seq || joined[last].End != m.First {
			joined = append(joined, m)
			continue
		}
		joined[last].End = m.End
		if joined[last].Stored.IsZero() {
			joined[last].Stored = m.Stored
		}
	}
	return joined
}

// each returns the vector that results if f maps the mark of each partition.
func (v Vector) each(f func(p int, m Mark) Mark) Vector {
	var all Vector
	for _, m := range v {
		for p := m.First; p < m.End; p++ {
			moved := f(p, m)
			moved.Partitions = events.Partitions{First: p, End: p + 1}
			all = append(all, moved)
		}
	}
	return all.Joined()
}

// Capped returns the vector with no partition beyond a sequence.
func (v Vector) Capped(seq uint64) Vector {
	return v.each(func(_ int, m Mark) Mark {
		if m.Seq > seq {
			m.Seq, m.Stored = seq, time.Time{}
		}
		return m
	})
}

// Raised returns the vector with each partition raised to its sequence in another vector,
// if that is higher.
func (v Vector) Raised(to Vector) Vector {
	return v.each(func(p int, m Mark) Mark {
		if i := to.Index(p); i >= 0 && to[i].Seq > m.Seq {
			return to[i]
		}
		return m
	})
}

// Moved returns the vector after all messages up to seq are projected. The log stored the
// message at seq at the given time.
func (v Vector) Moved(seq uint64, stored time.Time) Vector {
	if len(v) == 1 { // nearly always
		m := v[0]
		if seq > m.Seq {
			m.Seq, m.Stored = seq, stored
		}
		return Vector{m}
	}
	return v.Toward(Vector{{Partitions: v.Run(), Seq: math.MaxUint64}}, seq, stored)
}

// Toward is Moved, but no partition moves beyond its sequence in want.
func (v Vector) Toward(want Vector, seq uint64, stored time.Time) Vector {
	reached := want.Capped(seq)
	for i := range reached {
		reached[i].Stored = time.Time{}
		if reached[i].Seq == seq {
			reached[i].Stored = stored
		}
	}
	return v.Raised(reached)
}

// Next returns the first sequence that may be missing to reach another vector, or 0 if
// none is missing.
func (v Vector) Next(want Vector) (next uint64) {
	for _, w := range want {
		for _, m := range v.Of(w.Partitions) {
			if m.Seq < w.Seq && (next == 0 || m.Seq < next-1) {
				next = m.Seq + 1
			}
		}
	}
	return next
}

// Behind returns how many sequences the slowest partition lacks to reach another vector.
func (v Vector) Behind(want Vector) (most uint64) {
	for _, w := range want {
		for _, m := range v.Of(w.Partitions) {
			if m.Seq < w.Seq {
				most = max(most, w.Seq-m.Seq)
			}
		}
	}
	return most
}

// Reaches reports whether every partition is at its sequence in another vector, or
// beyond.
func (v Vector) Reaches(want Vector) bool { return v.Next(want) == 0 }

// Same reports whether two vectors have every partition at the same sequence, even if
// their marks are cut differently.
func (v Vector) Same(other Vector) bool {
	return v.Run() == other.Run() && v.Reaches(other) && other.Reaches(v)
}

// Equal reports whether two vectors have the same marks: the same runs at the same
// sequences.
func (v Vector) Equal(other Vector) bool {
	return slices.EqualFunc(v, other, func(a, b Mark) bool { return a.Partitions == b.Partitions && a.Seq == b.Seq })
}

// Steps returns the sequences of the vector in ascending order, each once.
func (v Vector) Steps() []uint64 {
	steps := make([]uint64, len(v))
	for i, m := range v {
		steps[i] = m.Seq
	}
	slices.Sort(steps)
	return slices.Compact(steps)
}

// String returns the vector for logs and errors.
func (v Vector) String() string {
	if joined := v.Joined(); len(joined) == 1 && joined[0].Partitions == events.AllPartitions {
		return fmt.Sprint(joined[0].Seq)
	}
	parts := make([]string, len(v))
	for i, m := range v {
		parts[i] = fmt.Sprintf("%s at %d", m.Partitions, m.Seq)
	}
	return strings.Join(parts, ", ")
}
