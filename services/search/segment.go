package search

import (
	"bytes"

	"github.com/memory-ledger/ledger/projections/readmodel/bodypages"
)

const (
	// separator ends each text of a segment. UTF-8 never contains this byte, so no match
	// reaches from one text into the next.
	separator = 0xff
	// segmentBytes is the length at which a segment ends. A longer text has its own
	// segment. Opening a segment is not interrupted.
	segmentBytes = 256 << 10
)

// segment holds the folded texts of consecutive leaves of one page. A separator ends each
// text.
type segment struct {
	first uint64 // the index of the first leaf
	texts []byte // valid until yield returns
}

func (s segment) page() uint64 { return s.first / bodypages.Leaves }

// leaves counts the texts.
func (s segment) leaves() int { return bytes.Count(s.texts, []byte{separator}) }

// find appends the indexes of the leaves whose text contains the query.
func (s segment) find(q *Query, found []uint64) []uint64 {
	leaf, rest := s.first, s.texts
	for {
		at := q.index(rest)
		if at < 0 {
			return found
		}
		leaf += uint64(bytes.Count(rest[:at], []byte{separator}))
		found = append(found, leaf)
		rest = rest[at:]
		rest = rest[bytes.IndexByte(rest, separator)+1:]
		leaf++
	}
}
