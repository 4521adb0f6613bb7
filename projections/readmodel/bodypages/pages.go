// Package bodypages is the read model for readers that scan everything that an owner
// wrote. A page holds the sealed bodies of 256 leaves side by side in one value, because
// PostgreSQL returns bytes much faster than rows.
//
// A page is written together with its last leaf, and never changes. The owner's newest
// leaves, at most 255, are only in the memories table. A page can also be missing: a
// reader must be able to work without it.
//
// # Layout
//
// Version 1; integers are big-endian, n is the number of leaves.
//
//	offset   bytes
//	0        4      "MLP1"
//	4        4      n; 256 in the table
//	8        8      index of the first leaf
//	16       16 n   ids
//	16+16n   4 n    lengths of the bodies in bytes, or 0xffffffff: absent
//	16+20n   ...    bodies, one after another
//
// A body of more than 8,192 bytes is absent: for such a body, the extra cost of reading
// its row is small, and a page stays below 2.1 MB. Sealing binds a body to its owner and
// id, so a body that was altered, or put beside another id, does not open.
package bodypages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

const (
	// Leaves is how many leaves a page of the table holds.
	Leaves = 256
	// MaxBody is the longest body, in bytes, that a page of the table holds.
	MaxBody = 8192

	magic      = "MLP1"
	headerSize = 16
	idSize     = 16
	lengthSize = 4
	absent     = math.MaxUint32
)

// ErrFormat means that bytes are not a page, or are not the requested page.
var ErrFormat = errors.New("damaged page of bodies")

// Page is the sealed bodies of consecutive leaves. Its methods are safe for concurrent
// use. Its bytes must not be changed.
type Page struct {
	data   []byte
	first  uint64
	leaves int
}

// Parse parses a page of the table, which must begin with the leaf first. The page keeps
// data, so the caller must not use it afterwards. The page can lack bodies; see
// Page.Absent.
func Parse(data []byte, first uint64) (Page, error) {
	p, err := parse(data)
	switch {
	case err != nil:
		return Page{}, err
	case p.leaves != Leaves:
		return Page{}, fmt.Errorf("%w: %d leaves", ErrFormat, p.leaves)
	case p.first != first:
		return Page{}, fmt.Errorf("%w: begins with leaf %d instead of %d", ErrFormat, p.first, first)
	}
	return p, nil
}

func parse(data []byte) (Page, error) {
	if len(data) < headerSize || string(data[:len(magic)]) != magic {
		return Page{}, fmt.Errorf("%w: no header", ErrFormat)
	}
	n := uint64(binary.BigEndian.Uint32(data[4:]))
	if n > Leaves || uint64(len(data)) < headerSize+n*(idSize+lengthSize) {
		return Page{}, fmt.Errorf("%w: %d leaves in %d bytes", ErrFormat, n, len(data))
	}
	p := Page{data: data, first: binary.BigEndian.Uint64(data[8:]), leaves: int(n)}
	if p.first > math.MaxInt64-Leaves {
		return Page{}, fmt.Errorf("%w: begins with leaf %d", ErrFormat, p.first)
	}
	end := uint64(p.bodies())
	for i := range p.leaves {
		if length := p.length(i); length == absent {
			continue
		} else if length > MaxBody {
			return Page{}, fmt.Errorf("%w: a body of %d bytes", ErrFormat, length)
		} else {
			end += uint64(length)
		}
	}
	if end != uint64(len(data)) {
		return Page{}, fmt.Errorf("%w: %d bytes instead of %d", ErrFormat, len(data), end)
	}
	return p, nil
}

// Leaf is the part of a leaf that a page holds.
type Leaf struct {
	ID     [16]byte
	Sealed []byte // nil: absent
}

// Of makes a page of at most 256 leaves; first is the index of the first leaf. Unlike a
// page of the table, the page can have fewer leaves, and bodies of any length.
func Of(first uint64, leaves []Leaf) Page {
	if len(leaves) > Leaves {
		panic(fmt.Sprintf("a page of %d leaves", len(leaves)))
	}
	size := headerSize + len(leaves)*(idSize+lengthSize)
	for i := range leaves {
		size += len(leaves[i].Sealed)
	}
	data := make([]byte, 0, size)
	data = append(data, magic...)
	data = binary.BigEndian.AppendUint32(data, uint32(len(leaves)))
	data = binary.BigEndian.AppendUint64(data, first)
	for i := range leaves {
		data = append(data, leaves[i].ID[:]...)
	}
	for i := range leaves {
		length := uint32(absent)
		if leaves[i].Sealed != nil {
			length = uint32(len(leaves[i].Sealed))
		}
		data = binary.BigEndian.AppendUint32(data, length)
	}
	for i := range leaves {
		data = append(data, leaves[i].Sealed...)
	}
	return Page{data: data, first: first, leaves: len(leaves)}
}

// First returns the index of the first leaf.
func (p Page) First() uint64 { return p.first }

// Len returns the number of leaves.
func (p Page) Len() int { return p.leaves }

// End returns the index after the last leaf.
func (p Page) End() uint64 { return p.first + uint64(p.leaves) }

// Bytes returns how many bytes of memory the page holds.
func (p Page) Bytes() int { return cap(p.data) }

func (p Page) bodies() int { return headerSize + p.leaves*(idSize+lengthSize) }

func (p Page) length(i int) uint32 {
	return binary.BigEndian.Uint32(p.data[headerSize+p.leaves*idSize+i*lengthSize:])
}

// ID returns the id of the page's leaf number i.
func (p Page) ID(i int) [16]byte { return [16]byte(p.data[headerSize+i*idSize:]) }

// AppendID appends the 36 characters of the id of leaf number i.
func (p Page) AppendID(dst []byte, i int) []byte {
	id := p.data[headerSize+i*idSize:][:idSize]
	var text [36]byte
	second, third := hexDigits(id[4:]), hexDigits(id[8:])
	binary.BigEndian.PutUint64(text[0:], hexDigits(id))
	binary.BigEndian.PutUint32(text[9:], uint32(second>>32))
	binary.BigEndian.PutUint32(text[14:], uint32(second))
	binary.BigEndian.PutUint32(text[19:], uint32(third>>32))
	binary.BigEndian.PutUint32(text[24:], uint32(third))
	binary.BigEndian.PutUint64(text[28:], hexDigits(id[12:]))
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return append(dst, text[:]...)
}

// hexDigits returns the eight hex digits of the first four bytes, one in each byte of the
// result. A search writes the id of every leaf that it passes; to write the digits one
// by one took a tenth of its time.
func hexDigits(b []byte) uint64 {
	const every = 0x0101010101010101
	v := uint64(binary.BigEndian.Uint32(b))
	v = (v | v<<16) & 0x0000ffff0000ffff
	v = (v | v<<8) & 0x00ff00ff00ff00ff
	v = (v | v<<4) & (0x0f * every) // a digit's value in each byte
	letters := (v + 6*every) >> 4 & every
	return v + '0'*every + letters*('a'-'0'-10)
}

// Sealed calls yield with the number of each leaf, starting at 0, and its body, until
// yield returns false. The body is a slice of the page's bytes, or nil if it is absent.
func (p Page) Sealed(yield func(i int, sealed []byte) bool) {
	at := p.bodies()
	for i := range p.leaves {
		length := p.length(i)
		if length == absent {
			if !yield(i, nil) {
				return
			}
			continue
		}
		end := at + int(length)
		if !yield(i, p.data[at:end:end]) {
			return
		}
		at = end
	}
}

// Absent returns the indexes of the leaves whose bodies are absent.
func (p Page) Absent() (indexes []uint64) {
	for i := range p.leaves {
		if p.length(i) == absent {
			indexes = append(indexes, p.first+uint64(i))
		}
	}
	return indexes
}

// Leaves returns the page's leaves. The bodies are slices of the page's bytes.
func (p Page) Leaves() []Leaf {
	leaves := make([]Leaf, 0, p.leaves)
	for i, sealed := range p.Sealed {
		leaves = append(leaves, Leaf{p.ID(i), sealed})
	}
	return leaves
}

// Equal reports whether two pages have the same bytes.
func (p Page) Equal(o Page) bool { return bytes.Equal(p.data, o.data) }
