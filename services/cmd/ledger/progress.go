package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
)

// inBytes is the unit that a bar abbreviates, for example to MB.
const inBytes = "bytes"

// progress shows the progress of a long command: on a terminal a bar with rate and time
// left, elsewhere a line now and then. It is not safe for concurrent use.
type progress struct {
	out   io.Writer
	what  string
	unit  string
	bar   *progressbar.ProgressBar // nil without a terminal
	begun time.Time
	last  time.Time
}

// newProgress shows the progress of work that begins now: rates count from then.
func newProgress(out io.Writer, what, unit string) *progress {
	p := &progress{out: out, what: what, unit: unit, begun: time.Now(), last: time.Now()}
	if isTerminal(out) && os.Getenv("TERM") != "dumb" {
		const unknown = 1 // the first step sets the total
		p.bar = progressbar.NewOptions64(unknown,
			progressbar.OptionShowBytes(unit == inBytes),
			progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString(unit),
			progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionEnableColorCodes(os.Getenv("NO_COLOR") == ""), progressbar.OptionClearOnFinish(),
			progressbar.OptionFullWidth(),
		)
	}
	return p
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}

// at reports that n of total are done. The total may grow. It is 0 if it is unknown.
func (p *progress) at(n, total uint64) {
	if p.bar != nil {
		p.draw(int64(n), int64(total))
		return
	}
	// This is how often a line is printed without a terminal.
	if now := time.Now(); now.Sub(p.last) >= 5*time.Second {
		p.last = now
		rate := float64(n) / now.Sub(p.begun).Seconds()
		if total == 0 {
			fmt.Fprintf(p.out, "%s: %d %s, %.0f/s\n", p.what, n, p.unit, rate)
			return
		}
		left := time.Duration(float64(total-min(n, total)) / max(rate, 1) * float64(time.Second))
		fmt.Fprintf(p.out, "%s: %d of %d, %.0f/s, %s left\n", p.what, n, total, rate, left.Round(time.Second))
	}
}

func (p *progress) draw(n, total int64) {
	if total == 0 {
		total = -1 // a spinner, and no time left
	}
	if p.bar.GetMax64() != total {
		p.bar.ChangeMax64(total)
	}
	_ = p.bar.Set64(n) // a failure costs only display
}

// say prints a line above the bar.
func (p *progress) say(line string) {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
	fmt.Fprintln(p.out, line)
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
		_ = p.bar.Clear()
	}
}

// steps shows the progress of a command that does its steps one after the other.
type steps struct {
	out  io.Writer
	step string
	now  *progress // nil between steps
}

func (s *steps) at(step string, bytes bool, done, total uint64) {
	if s.now == nil || s.step != step {
		unit := "messages"
		if bytes {
			unit = inBytes
		}
		s.end()
		s.step, s.now = step, newProgress(s.out, step, unit)
	}
	s.now.at(done, total)
}

// end removes the bar of the newest step.
func (s *steps) end() {
	if s.now != nil {
		s.now.done()
		s.now = nil
	}
}
