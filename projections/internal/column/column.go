// Package column turns the facts' own forms into those of PostgreSQL's columns
// and back.
package column

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/memory-ledger/ledger/events"
)

// UUID is an id as a uuid column keeps it.
type UUID = [16]byte

// ParseUUID reads the 36-character lowercase form; ids have no other spelling.
func ParseUUID(s string) (UUID, bool) {
	var id UUID
	read, from := 0, 0
	for _, to := range [...]int{8, 13, 18, 23, 36} {
		if len(s) != 36 || (to < 36 && s[to] != '-') {
			return UUID{}, false
		}
		for ; from < to; from += 2 {
			high, low := hexDigit(s[from]), hexDigit(s[from+1])
			if high|low > 0xf {
				return UUID{}, false
			}
			id[read] = high<<4 | low
			read++
		}
		from = to + 1
	}
	return id, true
}

// hexDigit is the value of a lowercase digit, 0xff of anything else.
func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// UUIDText is the 36-character form.
func UUIDText(id UUID) string {
	b := make([]byte, 0, 36)
	for i, part := range [][]byte{id[0:4], id[4:6], id[6:8], id[8:10], id[10:16]} {
		if i > 0 {
			b = append(b, '-')
		}
		b = hex.AppendEncode(b, part)
	}
	return string(b)
}

// Hash returns a scan target that fills h from a bytea of 32 bytes.
func Hash(h *events.Hash) pgtype.BytesScanner { return (*hashScanner)(h) }

type hashScanner events.Hash

// ScanBytes implements pgtype.BytesScanner.
func (h *hashScanner) ScanBytes(v []byte) error {
	if len(v) != events.HashSize {
		return fmt.Errorf("column holds %d bytes where a hash has %d", len(v), events.HashSize)
	}
	copy(h[:], v)
	return nil
}

// HashArg is a hash as an argument: NULL for nil.
func HashArg(h *events.Hash) []byte {
	if h == nil {
		return nil
	}
	return h[:]
}

// Time is the optional timestamp of a nullable column.
func Time(t *time.Time) *events.Timestamp {
	if t == nil {
		return nil
	}
	at := events.At(*t)
	return &at
}

// Text is the text of a nullable column, empty for NULL.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Bytes is b for a column that is never NULL: pgx writes a nil slice as NULL,
// but an event that says nothing says zero bytes.
func Bytes(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
