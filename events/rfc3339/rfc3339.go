// Package rfc3339 reads the dates and times that callers send, as RFC 3339 has them.
// [time.Parse] also takes forms that the RFC has not, and refuses some that it has.
package rfc3339

import (
	"regexp"
	"strings"
	"time"
)

var dateTime = regexp.MustCompile(`^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

const (
	seconds = len("2026-03-01T12:00:") // where the seconds begin
	leap    = "60"
)

// Time reads a date and time. Its year in UTC is from 1 to 9999. A leap second is the
// first moment of the next day.
func Time(text string) (time.Time, bool) {
	if !dateTime.MatchString(text) {
		return time.Time{}, false
	}
	text = strings.ToUpper(text)
	extra := time.Duration(0)
	if text[seconds:seconds+len(leap)] == leap {
		text, extra = text[:seconds]+"59"+text[seconds+len(leap):], time.Second
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	utc := at.UTC()
	if err != nil || extra > 0 && (utc.Hour() != 23 || utc.Minute() != 59) {
		return time.Time{}, false
	}
	return inRange(utc.Add(extra))
}

// From reads the beginning of a span: a date and time, or a date for the beginning of its
// day in UTC.
func From(text string) (time.Time, bool) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return inRange(day)
	}
	return Time(text)
}

// To reads the end of a span, which the span does not include: a date and time, or a date
// for the end of its day in UTC.
func To(text string) (time.Time, bool) {
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		_, ok := inRange(day)
		return day.AddDate(0, 0, 1), ok
	}
	return Time(text)
}

func inRange(at time.Time) (time.Time, bool) {
	return at, at.Year() >= 1 && at.Year() <= 9999
}
