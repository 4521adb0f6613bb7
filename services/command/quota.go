package command

import (
	"time"

	"github.com/memory-ledger/ledger/services/quota"
)

const day = 24 * time.Hour

// dayOf returns the UTC day of a time, counted from 1970.
func dayOf(t time.Time) int64 { return t.Unix() / int64(day/time.Second) }

// bytesOf returns what a memory counts for: its sealed content and its metadata, of which
// the empty object is free. Metadata is not sealed, but fills the log as well.
func bytesOf(sealed []byte, metadata int) int64 {
	return int64(len(sealed) + max(0, metadata-len("{}")))
}

// count adds a memory. A memory that a replica with a slow clock wrote after midnight counts
// for no day.
func (s *State) count(at time.Time, bytes int64) {
	switch d := dayOf(at); {
	case d > s.Day:
		s.Day, s.DayBytes = d, bytes
	case d == s.Day:
		s.DayBytes += bytes
	}
}

// admit refuses memories that would exceed the owner's bytes of a UTC day. The bytes are
// folded from the owner's events, so all replicas agree.
func (s *State) admit(now time.Time, memories ...*WriteMemory) error {
	var bytes int64
	if dayOf(now) <= s.Day { // also if another replica's clock has passed midnight
		bytes = s.DayBytes
	}
	for _, m := range memories {
		bytes += bytesOf(m.Sealed, m.Metadata.Len())
	}
	limit := memories[0].BytesPerDay
	if limit == 0 || bytes <= limit {
		return nil
	}
	midnight := now.UTC().Truncate(day).Add(day)
	return &quota.ExceededError{Of: "bytes of memories a day (UTC)", Limit: limit, Wait: midnight.Sub(now)}
}
