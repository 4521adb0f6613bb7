package column

import "time"

// Firsts pairs ids with the first time that was given for each: the first
// revocation is the one that counts, whatever clocks said later.
type Firsts struct {
	ID [][]byte
	At []time.Time

	seen map[UUID]struct{}
}

// Add notes a time for an id that has none yet.
func (f *Firsts) Add(id UUID, at time.Time) {
	if _, again := f.seen[id]; again {
		return
	}
	if f.seen == nil {
		f.seen = make(map[UUID]struct{})
	}
	f.seen[id] = struct{}{}
	f.ID, f.At = append(f.ID, id[:]), append(f.At, at)
}

// Lasts pairs ids with the latest time that was given for each.
type Lasts struct {
	ID [][]byte
	At []time.Time

	place map[UUID]int
}

// Add notes a time for an id.
func (l *Lasts) Add(id UUID, at time.Time) {
	if i, again := l.place[id]; again {
		if at.After(l.At[i]) {
			l.At[i] = at
		}
		return
	}
	if l.place == nil {
		l.place = make(map[UUID]int)
	}
	l.place[id] = len(l.ID)
	l.ID, l.At = append(l.ID, id[:]), append(l.At, at)
}
