package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// report gathers the table.
type report struct {
	fsync time.Duration
	rows  []row
	notes []string
}

type row struct{ work, ours, beside, ratio string }

func (r *report) add(work, ours, beside string, ratio float64) {
	r.rows = append(r.rows, row{work, ours, beside, fmt.Sprintf("%.2f", ratio)})
	fmt.Fprintf(os.Stderr, "%s: %s beside %s: %.2f\n", work, ours, beside, ratio)
}

// note adds a line below the table.
func (r *report) note(line string) {
	r.notes = append(r.notes, line)
	fmt.Fprintln(os.Stderr, line)
}

func (r *report) print(out io.Writer, w *world) error {
	fmt.Fprintf(out, "%d cores, %s, fsync of 4 KiB appended: %v median; medians of %d interleaved rounds of %v\n\n",
		runtime.NumCPU(), cpuModel(), r.fsync.Round(time.Microsecond), w.rounds, w.duration)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "| work\t| ours\t| beside\t| ratio\t|")
	fmt.Fprintln(table, "|---\t|---\t|---\t|---\t|")
	for _, row := range r.rows {
		fmt.Fprintf(table, "| %s\t| %s\t| %s\t| %s\t|\n", row.work, row.ours, row.beside, row.ratio)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, line := range r.notes {
		fmt.Fprintln(out, "\n"+line)
	}
	return nil
}

func rate(s series) string {
	return fmt.Sprintf("%.0f/s (p50 %v, p99 %v)", s.perSecond, short(s.p50), short(s.p99))
}

func short(d time.Duration) time.Duration {
	switch {
	case d > 100*time.Millisecond:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// fsyncLatency returns the median time to append 4 KiB and fsync them.
func fsyncLatency(dir string) (time.Duration, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	block := make([]byte, 4096)
	times := make([]time.Duration, 200)
	for i := range times {
		start := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		times[i] = time.Since(start)
	}
	return medianOf(times), nil
}
