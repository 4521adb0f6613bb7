package rfc3339_test

import (
	"testing"
	"time"

	"github.com/memory-ledger/ledger/events/rfc3339"
)

// TestTimes: the forms of the RFC are read, and nothing else is.
func TestTimes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-03-01T12:00:00Z": "2026-03-01T12:00:00Z", "2026-03-01t12:00:00z": "2026-03-01T12:00:00Z",
		"2026-03-01T12:00:00.123456789123+02:00": "2026-03-01T10:00:00.123456789Z", "2026-03-01T12:00:00-00:00": "2026-03-01T12:00:00Z",
		"2026-03-01T12:00:00+23:59": "2026-02-28T12:01:00Z", "0001-01-01T00:00:00Z": "0001-01-01T00:00:00Z",
		"2016-12-31T23:59:60Z": "2017-01-01T00:00:00Z", "2016-12-31T18:59:60.5-05:00": "2017-01-01T00:00:00.5Z",
	} {
		if got, ok := rfc3339.Time(text); !ok || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%s: %v, %v", text, got, ok)
		}
	}
	for _, bad := range []string{
		"", "2026-03-01", "tomorrow", "2026-03-01T12:00:00", "2026-03-01 12:00:00Z", "2026-03-01T12:00Z", "2026-03-01T1:00:00Z", "2026-03-01T12:00:00,5Z",
		"2026-03-01T12:00:00.Z", "2026-03-01T12:00:00+24:00", "2026-03-01T12:00:00+02:60", "2026-03-01T12:00:00+0200", "2026-03-01T12:00:60Z",
		"2026-03-01T24:00:00Z", "2026-02-30T12:00:00Z", "2026-13-01T12:00:00Z", "0000-12-31T23:00:00Z", "0001-01-01T00:00:00+01:00",
		"9999-12-31T23:59:59-23:00", "10000-01-01T00:00:00Z", " 2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z\n", "２026-03-01T12:00:00Z",
	} {
		if got, ok := rfc3339.Time(bad); ok {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// TestDatesAreWholeDays: a date as the end of a span includes its day.
func TestDatesAreWholeDays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, from, to string }{
		{"2026-03-01", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"}, {"2024-02-29", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"2026-03-01t12:00:00z", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z"},
	} {
		from, ok := rfc3339.From(c.text)
		to, also := rfc3339.To(c.text)
		if !ok || !also || from.Format(time.RFC3339) != c.from || to.Format(time.RFC3339) != c.to {
			t.Errorf("%s: from %v, to %v", c.text, from, to)
		}
	}
	for _, bad := range []string{"", "2026-3-1", "2026-02-29", "0000-01-01", "2026-03", "26-03-01"} {
		_, from := rfc3339.From(bad)
		if _, to := rfc3339.To(bad); from || to {
			t.Errorf("%q is read", bad)
		}
	}
}
