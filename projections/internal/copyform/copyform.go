// Package copyform is the binary form of PostgreSQL's COPY (manual, "COPY",
// Binary Format), for those who read or write rows by the hundred thousand.
package copyform

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// Signature is what the form begins with. Flags and the length of an extension
// follow, four bytes each.
const Signature = "PGCOPY\n\xff\r\n\x00"

// ErrFormat says that bytes are not of the form, or have other columns.
var ErrFormat = errors.New("not what COPY's binary form looks like")

// Header returns the header's length, 0 where it is not all there yet.
func Header(b []byte) (int, error) {
	const fixed = len(Signature) + 8
	if len(b) < fixed {
		return 0, nil
	}
	extension := binary.BigEndian.Uint32(b[len(Signature)+4:])
	if string(b[:len(Signature)]) != Signature || extension > math.MaxInt16 {
		return 0, ErrFormat
	}
	if n := fixed + int(extension); len(b) >= n {
		return n, nil
	}
	return 0, nil
}

// Tuple has fields point at the columns of the row that b begins with, nil for
// NULL, and returns the row's length, 0 where it is not all there yet. Where the
// rows are over it says so.
func Tuple(b []byte, fields [][]byte) (n int, end bool, err error) {
	if len(b) < 2 {
		return 0, false, nil
	}
	switch columns := int16(binary.BigEndian.Uint16(b)); {
	case columns == -1:
		return 2, true, nil
	case int(columns) != len(fields):
		return 0, false, ErrFormat
	}
	at := 2
	for i := range fields {
		if len(b) < at+4 {
			return 0, false, nil
		}
		length := int32(binary.BigEndian.Uint32(b[at:]))
		at += 4
		switch {
		case length == -1:
			fields[i] = nil
			continue
		case length < 0:
			return 0, false, ErrFormat
		case len(b)-at < int(length):
			return 0, false, nil
		}
		fields[i] = b[at : at+int(length) : at+int(length)]
		at += int(length)
	}
	return at, false, nil
}

// epoch is what timestamps count from.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// FromUnix is a timestamptz of microseconds since 1970.
func FromUnix(micros int64) int64 { return micros - epoch }

// ToUnix is the microseconds since 1970 of a timestamptz.
func ToUnix(timestamptz int64) int64 { return timestamptz + epoch }
