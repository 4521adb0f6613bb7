package fence

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/projector"
)

// database is the source of a tracker: its rows move, are cut and joined, are swapped for
// others, or are restored to an earlier state.
type database struct {
	*rand.Rand
	projector.Checkpoint
	generations int
	untold      []announcement
}

func (d *database) swap() {
	d.generations++
	d.Generation = fmt.Sprint(d.generations)
	d.Vector = d.Joined()
}

func (d *database) move() {
	i := d.IntN(len(d.Vector))
	d.Vector = append(projector.Vector(nil), d.Vector...)
	d.Vector[i].Seq += d.Uint64N(5)
	d.tell(i)
}

func (d *database) recut() {
	at := d.IntN(events.PartitionCount)
	low, high := d.Of(events.Partitions{First: 0, End: at}), d.Of(events.Partitions{First: at, End: events.PartitionCount})
	if d.IntN(2) == 0 {
		low, high = low.Joined(), high.Joined()
	}
	d.Vector = append(low, high...)
	if d.IntN(3) == 0 {
		d.Vector = d.Moved(d.Highest(), d.Vector[0].Stored)
	}
	for i := range d.Vector {
		d.tell(i)
	}
}

func (d *database) tell(i int) {
	d.untold = append(d.untold, announcement{d.Generation, d.Vector[i].Partitions, d.Vector[i].Seq})
}

// TestATrackerBelievesNothingThatIsNotSo: whatever happens to the rows, and however late
// the tracker learns it, the tracker never overstates a partition's position. It forgets
// no waiter.
func TestATrackerBelievesNothingThatIsNotSo(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		d := &database{Rand: rand.New(rand.NewPCG(seed, 3)), Checkpoint: projector.Checkpoint{Generation: "0", Vector: projector.AllAt(0)}}
		var tracker tracker
		waits := map[*waiter]goal{}
		for range 120 {
			switch d.IntN(12) {
			case 0:
				d.recut()
			case 1:
				d.swap()
			case 2: // a restore cuts every connection
				tracker.lost()
				for w, g := range waits {
					if !woken(w) {
						t.Errorf("nobody listens, and who waits for %+v sleeps", g)
					}
				}
				d.untold = nil
				d.Vector = d.Capped(d.Uint64N(d.Highest() + 1))
			case 3:
				tracker.set(d.Checkpoint, false)
			case 4, 5, 6, 7:
				for ; len(d.untold) > 0 && d.IntN(4) > 0; d.untold = d.untold[1:] {
					a := d.untold[0]
					row := goal{partition: a.First}
					before := tracker.known(row)
					if advanced := tracker.advance(a); advanced && tracker.known(row) < before {
						t.Errorf("an old announcement takes %s from %d back to %d", a.Partitions, before, a.seq)
					} else if !advanced && tracker.live {
						tracker.set(d.Checkpoint, false)
					}
				}
			default:
				d.move()
			}
			believed(t, &tracker, d)
			g := goal{partition: d.IntN(events.PartitionCount+20) - 20, seq: d.Uint64N(d.Highest() + 8)}
			if g.partition < 0 {
				g.partition = everybody
			}
			w, reached := tracker.await(g)
			if is := g.reach(d.Vector) >= g.seq; reached && !is {
				t.Errorf("%+v is said to be reached at %s", g, d)
			}
			if w != nil {
				waits[w] = g
			}
			if d.IntN(8) == 0 {
				for w := range waits {
					tracker.forget(w)
					delete(waits, w)
					break
				}
			}
		}
		tracker.set(d.Checkpoint, false)
		asleep := 0
		for w, g := range waits {
			if woken(w) {
				continue
			}
			if asleep++; g.reach(d.Vector) >= g.seq {
				t.Errorf("%+v is reached at %s, and its waiter sleeps", g, d)
			}
		}
		if kept := len(tracker.waiting); kept != asleep {
			t.Errorf("%d wait, and the tracker keeps %d", asleep, kept)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// woken reports whether a waiter was woken.
func woken(w *waiter) bool {
	select {
	case <-w.wake:
		return true
	default:
		return false
	}
}

// TestWhoLeavesIsForgotten: a fence keeps nothing of readers that gave up.
func TestWhoLeavesIsForgotten(t *testing.T) {
	t.Parallel()
	var f Fence
	f.known.set(projector.Checkpoint{Generation: "0", Vector: projector.AllAt(0)}, false)
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, partition := range []int{everybody, 0, 255} {
		w, _ := f.known.await(goal{partition, 1})
		f.waitToBeTold(left, w)
	}
	if n := len(f.known.waiting); n != 0 {
		t.Errorf("%d are kept", n)
	}
}

// believed compares the tracker's position of every partition with the database's.
func believed(t *testing.T, tracker *tracker, d *database) {
	t.Helper()
	if !tracker.live { // the tables may have been exchanged
		if seq, live := tracker.highest(); live || tracker.reached(0) {
			t.Errorf("while the listener is down, it is believed at %d", seq)
		}
		return
	}
	for p := range events.PartitionCount {
		if known := tracker.known(goal{partition: p}); known > d.At(p) {
			t.Errorf("partition %d is believed at %d, is at %d", p, known, d.At(p))
		}
	}
	if !tracker.reached(tracker.at.Lowest()) || tracker.reached(d.Lowest()+1) {
		t.Errorf("all are believed at %d of %d", tracker.at.Lowest(), d.Lowest())
	}
}

func TestAnnouncementsAreRead(t *testing.T) {
	t.Parallel()
	a, err := parseAnnouncement("gen 00-7f 12")
	if want := (announcement{"gen", events.Partitions{First: 0, End: 128}, 12}); err != nil || a != want {
		t.Errorf("%+v, %v", a, err)
	}
	for _, bad := range []string{"", "gen 12", "gen 00-7f", "gen 00-7f x", "gen 7f-00 12", "gen 00-7f -1", "gen 00-7f 12 13"} {
		if a, err := parseAnnouncement(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, a)
		}
	}
}
