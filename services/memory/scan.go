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

// chunkRows is how many memories are read from the database at a time, or fewer,
// of pieceBytes. A log only grows, so chunks read one after the other add up to
// one consistent list, without a transaction that a slow reader could hold open.
const chunkRows = 500

// Limits of short work, which has time slots of its own: a page of a list, or a
// search of few bytes that are kept in memory. The first rows are few, because
// their length is not known before.
const (
	shortLeaves = 128
	shortRows   = 64
	shortBytes  = 256 << 10
)

// pieceBytes is how many bytes Next hands over at a time.
const pieceBytes = 4 << 20

// errFull ends a chunk before its last row.
var errFull = errors.New("enough for one chunk")

// ErrEnough is what yield returns to end the chunk with the memory that it was
// called with. Only the writer of the answer knows how many bytes a memory takes
// in it: up to six times the text.
var ErrEnough = errors.New("no more for now")

// Cursor walks through an owner's memories in leaf order, as far as the log
// reached when the cursor was made.
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
	rows    uint64  // how many rows to read next; 0 before the first
	width   uint64  // average bytes of the rows that were read last; 0 before the first
	begun   bool    // had a time slot

	everyLeaf bool          // yield what was retracted, too, without its text
	query     *search.Query // nil: all memories
	found     []uint64      // leaves that match and were not handed over
	textWidth uint64        // average bytes of the texts of the last piece; 0 before the first

	// Abandoned, if set, reports that the client has left.
	Abandoned func() bool
}

// Range returns a cursor over the leaves from index from on, at most limit of
// them (0: no limit).
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

// Size is how many leaves the log had when the cursor was made.
func (c *Cursor) Size() uint64 { return c.size }

// Kept is how many leaves the cursor has that have a text, if it begins with the first.
func (c *Cursor) Kept() uint64 { return c.end - c.without.before(c.end) }

// Position is the index of the next leaf to be read, or looked through.
func (c *Cursor) Position() uint64 { return c.next }

// Next reads the next chunk and calls yield for each memory in it that
// matches. There may be none in a chunk and still be more to come.
//
// The work is done in a time slot of the owner's, unless it is a short list whose
// rows are kept. yield is called within the slot, so it must not block.
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

// read yields the next rows: of the leaves that were found, or of a list.
func (c *Cursor) read(ctx context.Context, short bool, yield func(*View) error) error {
	limit := int(min(c.left(), cmp.Or(c.rows, chunkRows)))
	read, bytes := 0, 0
	var rows []*memories.Memory // of a short list
	each := func(m *memories.Memory) error {
		if bytes >= pieceBytes { // yielded memories stay here until a slow reader takes them
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
	// Read as many rows next as have pieceBytes, if they are like these.
	c.rows = max(1, min(chunkRows, pieceBytes*uint64(read)/uint64(max(1, bytes))))
	c.width = uint64(bytes / max(1, read))
	return nil
}

// left is how many rows may be read before the next look or the end.
func (c *Cursor) left() uint64 {
	if c.query != nil {
		return uint64(len(c.found))
	}
	return c.end - c.next
}

// keptRows yields a short list whose rows are kept, and reports whether they are.
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
