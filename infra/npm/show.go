package npm

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

const clearLine = "\r\x1b[K"

// Show returns a function that shows the progress of several fetches: on a terminal in one
// line that changes, elsewhere in a line now and then.
func Show(out io.Writer, terminal bool) func(Progress) {
	s := &show{out: out, terminal: terminal, now: time.Now}
	return s.at
}

type show struct {
	out      io.Writer
	terminal bool
	now      func() time.Time

	mu      sync.Mutex
	running []Progress // in the order in which they began
	last    time.Time
}

func (s *show) at(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	begins := s.put(p)
	every := 5 * time.Second
	if s.terminal {
		every = 100 * time.Millisecond
	}
	switch now := s.now(); {
	case p.Done:
		s.line("fetched "+p.words(), true)
	case begins || now.Sub(s.last) >= every:
		s.last = now
		var all []string
		for _, r := range s.running {
			all = append(all, r.words())
		}
		s.line("fetching "+strings.Join(all, "; "), false)
	}
}

// put keeps the newest progress of a fetch until it is done. It reports whether the fetch
// begins.
func (s *show) put(p Progress) bool {
	for i := range s.running {
		if s.running[i].What != p.What {
			continue
		}
		s.running[i] = p
		if p.Done {
			s.running = append(s.running[:i], s.running[i+1:]...)
		}
		return false
	}
	s.running = append(s.running, p)
	return true
}

// line writes a line. On a terminal the next one replaces it, unless it is to stay.
func (s *show) line(text string, stays bool) {
	before, after := "", "\n"
	if s.terminal {
		before = clearLine
		if !stays {
			after = ""
		}
	}
	fmt.Fprint(s.out, before+text+after) // a failed write costs only display
}

func (p Progress) words() string {
	const mega = 1_000_000
	mb := func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/mega) }
	switch {
	case p.Done:
		return fmt.Sprintf("%s: %s MB", p.What, mb(p.Bytes))
	case p.Of > 1:
		return fmt.Sprintf("%s: %d of %d packages, %s MB", p.What, p.Packages, p.Of, mb(p.Bytes))
	case p.OfBytes > 0:
		return fmt.Sprintf("%s: %s of %s MB", p.What, mb(p.Bytes), mb(p.OfBytes))
	}
	return p.What
}
