package events

import (
	"fmt"
	"time"
)

// timestampLayout is ISO 8601 in UTC with exactly three fractional digits.
const timestampLayout = "2006-01-02T15:04:05.000Z"

// Timestamp is a point in time with millisecond precision, UTC. Its text form
// is always 24 characters: 2026-01-02T03:04:05.678Z.
type Timestamp struct{ t time.Time }

// At truncates t to a Timestamp.
func At(t time.Time) Timestamp { return Timestamp{t.UTC().Truncate(time.Millisecond)} }

// Time returns the point in time.
func (ts Timestamp) Time() time.Time { return ts.t }

// TimeOrZero returns the point in time, or the zero time for nil.
func (ts *Timestamp) TimeOrZero() time.Time {
	if ts == nil {
		return time.Time{}
	}
	return ts.t
}

// IsZero reports whether ts was never set.
func (ts Timestamp) IsZero() bool { return ts.t.IsZero() }

// Add returns ts moved by d.
func (ts Timestamp) Add(d time.Duration) Timestamp { return At(ts.t.Add(d)) }

// Before reports whether ts is earlier than other.
func (ts Timestamp) Before(other Timestamp) bool { return ts.t.Before(other.t) }

// String returns the 24-character form.
func (ts Timestamp) String() string { return ts.t.Format(timestampLayout) }

// AppendText implements encoding.TextAppender. It refuses a time that UnmarshalText would
// not read back: such an event in the log would stop every reader for good.
func (ts Timestamp) AppendText(b []byte) ([]byte, error) {
	if year := ts.t.Year(); year < 0 || year > 9999 {
		return nil, fmt.Errorf("timestamp: the year %d does not have four digits", year)
	}
	return ts.t.AppendFormat(b, timestampLayout), nil
}

// MarshalText implements encoding.TextMarshaler.
func (ts Timestamp) MarshalText() ([]byte, error) { return ts.AppendText(make([]byte, 0, 24)) }

// UnmarshalText accepts exactly the form that String returns. It calls time.Parse with
// RFC 3339, the layout that time.Parse reads fastest.
func (ts *Timestamp) UnmarshalText(text []byte) error {
	t, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("timestamp: %w", err)
	}
	var form [len(timestampLayout)]byte
	if string(t.AppendFormat(form[:0], timestampLayout)) != string(text) {
		return fmt.Errorf("timestamp: %q is not of the form %s", text, timestampLayout)
	}
	ts.t = t
	return nil
}
