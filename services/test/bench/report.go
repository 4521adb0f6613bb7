package main

import (
	"fmt"
	"time"
)

// add prints a line of the table.
func add(work string, ours, beside any, ratio float64) {
	fmt.Printf("| %s | %v | %v | %.2f |\n", work, ours, beside, ratio)
}

// addRate compares throughputs.
func addRate(work string, ours, beside series) {
	rate := func(s series) string {
		return fmt.Sprintf("%.0f/s (p50 %v, p99 %v)", s.perSecond, short(s.p50), short(s.p99))
	}
	add(work, rate(ours), rate(beside), ratio(ours, beside, throughput))
}

// addTime compares durations.
func addTime(work string, ours, beside series, of func(result) float64) {
	add(work, short(time.Duration(of(ours.result))), short(time.Duration(of(beside.result))), ratio(ours, beside, of))
}

// short rounds to some three digits.
func short(d time.Duration) time.Duration {
	return d.Round(max(d/500, time.Microsecond)).Round(time.Microsecond)
}
