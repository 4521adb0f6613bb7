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
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	digits := make([]byte, 0, 32)
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
		case '0' <= c && c <= '9', 'a' <= c && c <= 'f':
			digits = append(digits, c)
		default:
			return id, false
		}
	}
	_, err := hex.Decode(id[:], digits)
	return id, err == nil
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
