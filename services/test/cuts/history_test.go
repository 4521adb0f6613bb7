package cuts_test

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// staleReads returns the operations on an owner's log that no order can explain. The log
// only grows, and each write says the size that it made. So an order that respects time
// exists if and only if, for two operations of which one ended before the other began, the
// later one has the larger size, or at least the same if it is a read.
func staleReads(steps []step) (wrong []string) {
	var all []step
	for _, s := range steps {
		if s.size >= 0 && (s.what == "write" || s.what == "read") {
			all = append(all, s)
		}
	}
	byEnd := slices.Clone(all)
	slices.SortFunc(all, func(a, b step) int { return a.began.Compare(b.began) })
	slices.SortFunc(byEnd, func(a, b step) int { return a.end.Compare(b.end) })
	ended, newest := 0, step{}
	for _, s := range all {
		for ; ended < len(byEnd) && byEnd[ended].end.Before(s.began); ended++ {
			if byEnd[ended].size > newest.size {
				newest = byEnd[ended]
			}
		}
		if s.size < newest.size || s.what == "write" && s.size == newest.size {
			wrong = append(wrong, fmt.Sprintf("%s through replica %d: size %d, %s after a %s through replica %d ended with %d",
				s.what, s.replica, s.size, s.began.Sub(newest.end), newest.what, newest.replica, newest.size))
		}
	}
	return append(wrong, unwritten(all)...)
}

// unwritten returns the reads that saw a memory before its write began.
func unwritten(all []step) (wrong []string) {
	began := map[int]time.Time{} // by size
	for _, s := range all {
		if s.what == "write" {
			began[s.size] = s.began
		}
	}
	for _, s := range all {
		if at, known := began[s.size]; s.what == "read" && known && s.end.Before(at) {
			wrong = append(wrong, fmt.Sprintf("a read saw size %d %s before that write began", s.size, at.Sub(s.end)))
		}
	}
	return wrong
}

// TestTheCheckBites tries the check on histories that no order explains.
func TestTheCheckBites(t *testing.T) {
	t.Parallel()
	at := func(what string, began, end, size int) step {
		return step{what: what, began: time.Unix(int64(began), 0), end: time.Unix(int64(end), 0), size: size}
	}
	for name, c := range map[string]struct {
		steps []step
		wrong int
	}{
		"in order":                  {[]step{at("write", 1, 2, 1), at("read", 3, 4, 1), at("write", 5, 6, 2)}, 0},
		"overlapping":               {[]step{at("write", 1, 9, 1), at("read", 2, 3, 0), at("read", 4, 5, 1)}, 0},
		"a stale read":              {[]step{at("write", 1, 2, 1), at("read", 3, 4, 0)}, 1},
		"a read that goes back":     {[]step{at("write", 1, 9, 1), at("read", 2, 3, 1), at("read", 4, 5, 0)}, 1},
		"two writes of a size":      {[]step{at("write", 1, 2, 1), at("write", 3, 4, 1)}, 1},
		"writes in the wrong order": {[]step{at("write", 1, 2, 2), at("write", 3, 4, 1)}, 1},
		"a read of what is not":     {[]step{at("read", 1, 2, 1), at("write", 3, 4, 1)}, 2},
	} {
		if wrong := staleReads(c.steps); len(wrong) != c.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}
