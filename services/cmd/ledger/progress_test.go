package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// Without a terminal, a line is printed now and then.
func TestStepsElsewhere(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := &steps{out: &out}
	s.at("copying log", true, 1, 0)
	s.now.last = time.Now().Add(-plainEvery)
	s.at("copying log", true, 1000, 0)
	s.at("checking log", false, 1, 200)
	s.now.last = time.Now().Add(-plainEvery)
	s.at("checking log", false, 50, 200)
	s.end()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "copying log: 1000 bytes, ") || !strings.HasPrefix(lines[1], "checking log: 50 of 200, ") {
		t.Errorf("%q", out.String())
	}
}
