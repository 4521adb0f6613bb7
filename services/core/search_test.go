package core

import (
	"testing"
	"time"
)

// TestDatesInFilters: a date is its whole day, and what is no time is refused.
func TestDatesInFilters(t *testing.T) {
	t.Parallel()
	day, bad := "2026-03-01", "2026-03-01T12:00:00+24:00"
	f, err := filterBody{From: &day, To: &day}.filter()
	if from, to := f.From.Format(time.RFC3339), f.To.Format(time.RFC3339); err != nil || from != "2026-03-01T00:00:00Z" || to != "2026-03-02T00:00:00Z" {
		t.Errorf("from %s, to %s, %v", from, to, err)
	}
	if _, err := (filterBody{To: &bad}).filter(); err == nil {
		t.Errorf("%s is taken", bad)
	}
}
