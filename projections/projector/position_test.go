package projector_test

import (
	"github.com/memory-ledger/ledger/events"

	"math/rand/v2"
	"testing"
	"time"

	"github.com/memory-ledger/ledger/projections/projector"
)

// plain is the simplest position: a sequence for each partition.
type plain [events.PartitionCount]uint64

func plainOf(v projector.Vector) (p plain) {
	for i := range p {
		p[i] = v.At(i)
	}
	return p
}

// chance makes vectors of few runs and close sequences, so that adjacent runs are often
// at equal sequences.
type chance struct{ *rand.Rand }

func (c chance) vector(run events.Partitions) projector.Vector {
	var v projector.Vector
	for first := run.First; first < run.End; {
		end := min(run.End, first+1+c.IntN(90))
		if first == run.First && c.IntN(6) == 0 {
			end = run.End
		}
		seq := c.Uint64N(12)
		v = append(v, projector.Mark{Partitions: events.Partitions{First: first, End: end}, Seq: seq, Stored: storedAt(seq)})
		first = end
	}
	return v
}

// storedAt returns when the log of these tests stored a message.
func storedAt(seq uint64) time.Time { return time.Unix(int64(seq), 0) }

const rounds = 300

func each(t *testing.T, f func(c chance)) {
	t.Helper()
	t.Parallel()
	for seed := range uint64(rounds) {
		f(chance{rand.New(rand.NewPCG(seed, 7))})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestVectorsAreSequencesOfPartitions compares every method with its plain version.
func TestVectorsAreSequencesOfPartitions(t *testing.T) {
	each(t, func(c chance) {
		a, b, seq := c.vector(events.AllPartitions), c.vector(events.AllPartitions), c.Uint64N(12)
		pa, pb := plainOf(a), plainOf(b)
		var capped, raised, moved, toward plain
		var lowest, highest, next, behind uint64 = 99, 0, 0, 0
		for i := range pa {
			capped[i], raised[i], moved[i] = min(pa[i], seq), max(pa[i], pb[i]), max(pa[i], seq)
			toward[i] = max(pa[i], min(pb[i], seq))
			lowest, highest = min(lowest, pa[i]), max(highest, pa[i])
			if pa[i] < pb[i] {
				behind = max(behind, pb[i]-pa[i])
				if next == 0 || pa[i]+1 < next {
					next = pa[i] + 1
				}
			}
			if a.Wants(i, seq) != (seq > pa[i]) {
				t.Errorf("%s wants %d of %d: %v", a, seq, i, a.Wants(i, seq))
			}
		}
		for name, is := range map[string]struct {
			got  projector.Vector
			want plain
		}{
			"joined": {a.Joined(), pa}, "capped": {a.Capped(seq), capped}, "raised": {a.Raised(b), raised},
			"moved": {a.Moved(seq, storedAt(seq)), moved}, "toward": {a.Toward(b, seq, storedAt(seq)), toward},
		} {
			if plainOf(is.got) != is.want || !is.got.Covers(events.AllPartitions) {
				t.Errorf("%s: %s of %s, %s, %d", name, is.got, a, b, seq)
			}
			if !is.got.Equal(is.got.Joined()) {
				t.Errorf("%s: %s can be joined", name, is.got)
			}
			for _, m := range is.got {
				if !m.Stored.IsZero() && !m.Stored.Equal(storedAt(m.Seq)) {
					t.Errorf("%s: the message at %d was not stored at %s", name, m.Seq, m.Stored)
				}
			}
		}
		if a.Lowest() != lowest || a.Highest() != highest || a.Next(b) != next || a.Behind(b) != behind {
			t.Errorf("%s: lowest %d, highest %d, next to %s %d, behind %d", a, a.Lowest(), a.Highest(), b, a.Next(b), a.Behind(b))
		}
		if a.Reaches(b) != (behind == 0) || a.Same(b) != (pa == pb) || !a.Same(a.Joined()) {
			t.Errorf("%s and %s: reaches %v, same %v", a, b, a.Reaches(b), a.Same(b))
		}
	})
}

// TestRunsAreCutOut: a vector is cut into one projector's run and the runs around it.
func TestRunsAreCutOut(t *testing.T) {
	each(t, func(c chance) {
		v := c.vector(events.AllPartitions)
		run := events.Partitions{First: c.IntN(events.PartitionCount)}
		run.End = run.First + 1 + c.IntN(events.PartitionCount-run.First)
		of := v.Of(run)
		if !of.Covers(run) || of.Run() != run {
			t.Errorf("%s of %s is %s", run, v, of)
		}
		for p := range events.PartitionCount {
			if run.Has(p) != (of.Index(p) >= 0) || (run.Has(p) && of.At(p) != v.At(p)) {
				t.Errorf("%d in %s of %s is at %d", p, run, v, of.At(p))
			}
			if !run.Has(p) && of.Wants(p, 99) {
				t.Errorf("%s wants %d", of, p)
			}
		}
		whole := append(append(v.Of(events.Partitions{First: 0, End: run.First}), of...), v.Of(events.Partitions{First: run.End, End: events.PartitionCount})...)
		if !whole.Covers(events.AllPartitions) || !whole.Same(v) {
			t.Errorf("%s cut at %s is %s", v, run, whole)
		}
		// A vector of more partitions differs from a part of it.
		if run != events.AllPartitions && (whole.Covers(run) || whole.Same(of) || of.Same(whole) || whole.Equal(of)) {
			t.Errorf("%s is taken for what it says of %s", whole, run)
		}
		if whole.Equal(v) != (len(whole) == len(v)) {
			t.Errorf("%s and %s are cut alike: %v", whole, v, whole.Equal(v))
		}
	})
}

// TestEveryMessageOnceByWhateverWay replays a log to vectors that never shrink, in slices
// of any length. It also projects the log with projectors that start again with other
// partitions. It counts how often each message is applied.
func TestEveryMessageOnceByWhateverWay(t *testing.T) {
	each(t, func(c chance) {
		const length = 40
		log := make([]int, length+1) // the partition of each message
		applied := make([]int, length+1)
		for seq := 1; seq <= length; seq++ {
			log[seq] = c.IntN(events.PartitionCount)
		}
		have := projector.AllAt(0)
		for range 6 {
			want := have.Raised(c.vector(events.AllPartitions).Raised(projector.AllAt(c.Uint64N(20)))).Capped(length)
			if c.IntN(2) == 0 {
				have = replayTo(c, have, want, log, applied)
			} else {
				have = projected(c, have, log, applied)
			}
		}
		for seq := 1; seq <= length; seq++ {
			times := 0
			if uint64(seq) <= have.At(log[seq]) {
				times = 1
			}
			if applied[seq] != times {
				t.Errorf("%d of partition %d is applied %d times, at %s", seq, log[seq], applied[seq], have)
			}
		}
	})
}

// replayTo does the work of a Replayer.
func replayTo(c chance, have, want projector.Vector, log, applied []int) projector.Vector {
	for _, to := range want.Steps() {
		part := want.Capped(to)
		for at := have.Next(part); at != 0 && at <= to; {
			last := min(to, at+c.Uint64N(9))
			for seq := at; seq <= last; seq++ {
				if p := log[seq]; have.Wants(p, seq) && seq <= part.At(p) {
					applied[seq]++
				}
			}
			have, at = have.Toward(part, last, storedAt(last)), last+1
		}
	}
	return have
}

// projected does the work of the sessions of projectors that share the partitions: each
// reads the whole log, and is stopped anywhere.
func projected(c chance, have projector.Vector, log, applied []int) projector.Vector {
	var all projector.Vector
	for _, m := range c.vector(events.AllPartitions) {
		mine := have.Of(m.Partitions).Joined()
		for at, end := mine.Lowest()+1, c.Uint64N(uint64(len(log))); at <= end; {
			last := min(end, at+c.Uint64N(9))
			for seq := at; seq <= last; seq++ {
				if mine.Wants(log[seq], seq) {
					applied[seq]++
				}
			}
			mine, at = mine.Moved(last, storedAt(last)), last+1
		}
		all = append(all, mine...)
	}
	return all
}

func TestSaidForPeople(t *testing.T) {
	t.Parallel()
	half := events.Partitions{First: 0, End: 128}
	for want, v := range map[string]projector.Vector{
		"7":                      projector.AllAt(7),
		"00-7f at 8, 80-ff at 7": projector.AllAt(7).Raised(projector.Vector{{Partitions: half, Seq: 8}}),
		"00-7f at 7":             projector.AllAt(7).Of(half),
		"00-0f at 1, 20-ff at 1": {{Partitions: events.Partitions{First: 0, End: 16}, Seq: 1}, {Partitions: events.Partitions{First: 32, End: 256}, Seq: 1}}, // damaged
		"":                       nil,
	} {
		if got := v.String(); got != want {
			t.Errorf("%q is said %q", want, got)
		}
	}
	one, other := events.Partitions{First: 0, End: 100}, events.Partitions{First: 100, End: 256}
	if cut := (projector.Vector{{Partitions: one, Seq: 7}, {Partitions: other, Seq: 7}}); cut.Equal(projector.Vector{{Partitions: half, Seq: 7}, {Partitions: events.Partitions{First: 128, End: 256}, Seq: 7}}) || !cut.Equal(cut) {
		t.Errorf("%s is cut otherwise, and equal", cut)
	}
	if projector.AllAt(7).Covers(half) || !projector.AllAt(7).Of(half).Covers(half) {
		t.Error("what is said of all is taken for what is said of one half")
	}
	for _, bad := range []projector.Vector{nil, projector.AllAt(7).Of(half), append(projector.AllAt(7), projector.AllAt(7)...), {{Partitions: half}, {Partitions: half}}, {{Partitions: events.AllPartitions}, {Partitions: events.Partitions{First: 256, End: 256}}}, {{Partitions: events.Partitions{First: 1, End: 256}}}} {
		if bad.Covers(events.AllPartitions) {
			t.Errorf("%s covers all", bad)
		}
	}
}
