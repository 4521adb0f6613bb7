package child

import (
	"bytes"
	"strings"
	"sync"
)

// Lines is an io.Writer for a child's output. It passes complete lines on, and
// remembers the last few lines for error messages.
type Lines struct {
	mu   sync.Mutex
	each func(line string)
	keep int
	not  string
	last []string
	part []byte
}

// NewLines calls each (may be nil) for every line and remembers the last keep.
func NewLines(keep int, each func(line string)) *Lines {
	return &Lines{keep: keep, each: each}
}

// Except makes the Lines remember no line with that text. Call it before the first Write.
func (l *Lines) Except(text string) *Lines {
	l.not = text
	return l
}

func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			l.grow(rest)
			break
		}
		l.grow(rest[:end])
		l.flush()
		rest = rest[end+1:]
	}
	return len(p), nil
}

func (l *Lines) grow(p []byte) {
	// This bounds the length of a line in bytes. The rest of a longer line is dropped.
	l.part = append(l.part, p[:min(len(p), (8<<10)-len(l.part))]...)
}

func (l *Lines) flush() {
	line := strings.TrimRight(string(l.part), "\r")
	l.part = l.part[:0]
	if line == "" {
		return
	}
	if l.each != nil {
		l.each(line)
	}
	if l.not != "" && strings.Contains(line, l.not) {
		return
	}
	l.last = append(l.last, line)
	if len(l.last) > l.keep {
		l.last = l.last[len(l.last)-l.keep:]
	}
}

// Last returns the remembered lines as one line, separated by " | ".
func (l *Lines) Last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.flush()
	}
	return strings.Join(l.last, " | ")
}
