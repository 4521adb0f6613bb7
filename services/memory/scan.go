package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/search"
)

// ErrAbandoned: the client has closed the connection.
var ErrAbandoned = errors.New("the client closed the connection")

// chunkRows bounds the memories read from the database at a time; pieceBytes bounds them,
// too. A log only grows, so successive chunks form one consistent list without a
// transaction that a slow reader would hold open.
const chunkRows = 500

// Limits of short work, which has its own time slots: a page of a list, or a search of few
// bytes in memory. The first read takes few rows, because their length is unknown.
const (
	shortLeaves = 128
	shortRows   = 64
	shortBytes  = 256 << 10
)

// pieceBytes is how many bytes Next yields at a time.
const pieceBytes = 4 << 20

// errFull ends a chunk before its last row.
var errFull = errors.New("enough for one chunk")

// ErrEnough is returned by yield to end the chunk after the memory that it was called with.
// Only the writer of the answer knows how many bytes a memory takes there: up to six times
// the text.
var ErrEnough = errors.New("no more for now")

// Cursor iterates over an owner's memories in leaf order, up to the size that the log had
// when the cursor was made.
type Cursor struct {
	service *Service
	reader  Reader
	key     *keystore.OwnerKey
	opener  *keystore.Opener // nil before the first memory
	id      []byte           // buffer for the opener
	next    uint64
	end     uint64
	size    uint64  // of the log when the cursor was made
	without without // leaves
	rows    uint64  // how many rows to read next; 0 before the first read
	width   uint64  // average bytes of the last rows; 0 before the first read
	begun   bool    // had a time slot

	everyLeaf bool          // also yield retracted memories, without text
	query     *search.Query // nil: all memories
	found     []uint64      // matching leaves that were not yielded yet
	textWidth uint64        // average bytes of a text in the last piece; 0 before the first

	// Abandoned, if set, reports that the client has left.
	Abandoned func() bool
}

// Range returns a cursor over at most limit leaves from index from on (0: no limit).
func (s *Service) Range(ctx context.Context, r Reader, from uint64, limit int) (*Cursor, error) {
	extent, err := s.extent(ctx, r)
	if err != nil {
		return nil, err
	}
	c := &Cursor{service: s, reader: r, next: from, end: extent.leaves, size: extent.leaves, without: extent.without}
	if limit > 0 {
		c.end = min(c.size, from+uint64(limit))
	}
	if c.More() {
		if c.key, err = s.Keys.Find(ctx, r.Owner); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// More reports whether there is anything left to read.
func (c *Cursor) More() bool { return c.next < c.end || len(c.found) > 0 }

// Size returns how many leaves the log had when the cursor was made.
func (c *Cursor) Size() uint64 { return c.size }

// Kept returns how many leaves of the cursor have a text, if it starts at the first leaf.
func (c *Cursor) Kept() uint64 { return c.end - c.without.before(c.end) }

// Position returns the index of the next leaf to be read or searched.
func (c *Cursor) Position() uint64 { return c.next }

// Next reads the next chunk and calls yield for each matching memory in it. A chunk may
// have no match even if later ones do.
//
// The work is done in a time slot of the owner's, unless it is a short list with all rows
// cached. yield is called within the slot, so it must not block.
func (c *Cursor) Next(ctx context.Context, yield func(*View) error) error {
	slots, short := c.service.Long, c.short()
	if short {
		slots = c.service.Short
		if c.query == nil {
			if kept, err := c.keptRows(yield); kept {
				return err
			}
		}
		if !c.begun {
			c.rows = shortRows
		}
	}
	release, err := slots.Take(ctx, c.reader.Owner, c.begun)
	if err != nil {
		return err
	}
	defer release()
	c.begun = true
	if c.Abandoned != nil && c.Abandoned() {
		return ErrAbandoned
	}
	if c.query != nil && len(c.found) == 0 {
		if err := c.look(ctx); err != nil || len(c.found) == 0 {
			return err
		}
	}
	return c.read(ctx, short, yield)
}

// read yields the next rows: of the found leaves, or of a list.
func (c *Cursor) read(ctx context.Context, short bool, yield func(*View) error) error {
	limit := int(min(c.left(), cmp.Or(c.rows, chunkRows)))
	read, bytes := 0, 0
	var rows []*memories.Memory // to be cached, if the list is short
	each := func(m *memories.Memory) error {
		if bytes >= pieceBytes { // yielded memories stay in memory until a slow reader takes them
			return errFull
		}
		read++
		bytes += widthOf(m)
		if short && c.query == nil {
			rows = append(rows, m)
		}
		return c.open(m, yield)
	}
	var err error
	if c.query != nil {
		err = memories.At(ctx, c.service.Pool, c.reader.Owner, c.found[:limit], each)
	} else {
		err = memories.Scan(ctx, c.service.Pool, c.reader.Owner, c.next, limit, each)
	}
	full := errors.Is(err, errFull) || errors.Is(err, ErrEnough)
	if err != nil && !full {
		return fmt.Errorf("read memories from %d: %w", c.next, err)
	}
	if !full && read != limit {
		return fmt.Errorf("read memories from %d: %d of %d leaves are in the read model", c.next, read, limit)
	}
	if bytes <= shortBytes {
		c.service.Rows.put(c.reader, rows...)
	}
	if c.query != nil {
		c.found = c.found[read:]
	} else {
		c.next += uint64(read)
	}
	// Next time, read as many rows of this length as fit in pieceBytes.
	c.rows = max(1, min(chunkRows, pieceBytes*uint64(read)/uint64(max(1, bytes))))
	c.width = uint64(bytes / max(1, read))
	return nil
}

// left returns how many rows may be read before the next piece must be searched, or the
// end.
func (c *Cursor) left() uint64 {
	if c.query != nil {
		return uint64(len(c.found))
	}
	return c.end - c.next
}

// keptRows yields a short list if all its rows are cached, and reports whether they are.
func (c *Cursor) keptRows(yield func(*View) error) (kept bool, err error) {
	rows, kept := c.service.Rows.run(c.reader, c.next, c.end, shortBytes)
	for _, m := range rows {
		err := c.open(m, yield)
		if err != nil && !errors.Is(err, ErrEnough) {
			return kept, err
		}
		c.next++
		if err != nil {
			break
		}
	}
	return kept, nil
}

func (c *Cursor) open(m *memories.Memory, yield func(*View) error) error {
	if m.Retracted {
		if !c.everyLeaf {
			return nil
		}
		v := viewOf("", m)
		v.retracted = true
		return yield(&v)
	}
	if c.opener == nil {
		c.opener = c.key.Opener()
	}
	c.id = append(c.id[:0], m.ID...)
	content, err := c.opener.Open(c.id, m.Sealed)
	if err != nil {
		return err
	}
	v := viewOf(string(content), m)
	if err := c.checkMatch(m, v.Content); err != nil {
		return err
	}
	return yield(&v)
}

// short reports whether the next piece of work is short.
func (c *Cursor) short() bool {
	if c.left()*c.width > shortBytes {
		return false
	}
	if c.query != nil {
		return c.service.Segments.Light(c.reader.Owner, c.end, shortBytes)
	}
	return c.left() <= shortLeaves
}
