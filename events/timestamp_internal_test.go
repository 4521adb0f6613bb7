package events

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"
)

// sameTime checks that a Timestamp accepts exactly the texts that time.Parse reads and
// that format back to the same text.
func sameTime(t *testing.T, text string) (taken bool) {
	t.Helper()
	var quick Timestamp
	ok := quick.UnmarshalText([]byte(text)) == nil
	general, err := time.Parse(timestampLayout, text)
	if ok && (err != nil || !reflect.DeepEqual(quick.t, general)) {
		t.Fatalf("%q was taken for %v, but is %v, %v", text, quick, general, err)
	}
	if !ok && err == nil && general.Format(timestampLayout) == text { // time.Parse accepts a comma as the decimal point
		t.Fatalf("%q is a time and was not taken", text)
	}
	return ok
}

func TestTimestampsAreReadAsTimeParseReadsThem(t *testing.T) {
	t.Parallel()
	for _, year := range []int{0, 1, 1900, 1969, 2000, 2023, 2024, 2100, 9999} {
		for month := range 14 {
			for day := range 33 {
				sameTime(t, fmt.Sprintf("%04d-%02d-%02dT23:59:59.999Z", year, month, day))
			}
		}
	}
	for n := range 100 {
		for _, layout := range []string{"2026-01-02T%02d:00:00.000Z", "2026-01-02T00:%02d:00.000Z", "2026-01-02T00:00:%02d.000Z"} {
			sameTime(t, fmt.Sprintf(layout, n))
		}
	}
	if err := new(Timestamp).UnmarshalText([]byte("2026-01-02T03:04:05,678Z")); err == nil {
		t.Error("a comma is taken for the point")
	}
	const good = "2026-01-02T03:04:05.678Z"
	if !sameTime(t, good) || sameTime(t, good[:23]) || sameTime(t, good+"Z") || sameTime(t, "") {
		t.Error("the length is not looked at")
	}
	for i := range good {
		for c := range 256 {
			sameTime(t, good[:i]+string([]byte{byte(c)})+good[i+1:])
		}
	}
}

// TestTimestampsThatCantBeReadAreNotWritten: every text that MarshalText returns can be
// read back.
func TestTimestampsThatCantBeReadAreNotWritten(t *testing.T) {
	t.Parallel()
	first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	for at, good := range map[time.Time]bool{
		first: true, last: true, first.Add(-1): false, last.Add(time.Millisecond): false, time.Unix(math.MaxInt64, 0): false,
	} {
		text, err := At(at).MarshalText()
		if (err == nil) != good || good && new(Timestamp).UnmarshalText(text) != nil {
			t.Errorf("%s is written as %q, %v", at, text, err)
		}
	}
}
