package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memory-ledger/ledger/projections/memories"
	"github.com/memory-ledger/ledger/services/keystore"
)

// ErrAbandoned: the one who asked has left.
var ErrAbandoned = errors.New("the client closed the connection")

// chunkRows is how many memories are read from the database at a time, or fewer,
// of pieceBytes. A log only grows, so chunks read one after the other add up to
// one consistent list, without a transaction that a slow reader could hold open.
const chunkRows = 500

// What takes a moment and is done beside long work: a page of a list, or a search
// through few bytes that are kept. How long rows are is known once some were read,
// so the first are few.
const (
	shortLeaves = 128
	shortRows   = 64
	shortBytes  = 256 << 10
)

// errFull ends a chunk before its last row.
var errFull = errors.New("enough for one chunk")

// ErrEnough is what yield returns to have the chunk end with the memory that it was
// called with: the answer has as much as it should hold at a time. What a memory
// takes in an answer only whoever writes that knows, up to six times its text.
var ErrEnough = errors.New("no more for now")

// turnTime is how long a piece keeps its turn where somebody waits for one. What
// takes longer goes on when its owner's turn comes again.
const turnTime = 20 * time.Millisecond

// Cursor walks through an owner's memories in leaf order, as far as the log
// reached when the cursor was made.
type Cursor struct {
	service *Service
	reader  Reader
	key     *keystore.OwnerKey
	opener  *keystore.Opener // nil before the first memory of a list
	id      []byte           // that it was given last
	next    uint64
	end     uint64
	size    uint64   // of the log when the cursor was made
	search  *matcher // nil: all
	looked  looked   // in the last piece of a search
	found   []match  // and has not handed over
	rows    uint64   // how many rows are read at a time next; 0 before the first
	width   uint64   // bytes of a row, by those that were read last; 0 before the first
	begun   bool     // had a turn
	turn    turnHeld

	// Abandoned, if set, reports that nobody waits for the rest any more.
	Abandoned func() bool
}

// turnHeld is a turn that a piece of work has.
type turnHeld struct {
	turns   *Turns
	since   time.Time
	release func() // nil where there is none
}

// takeTurn waits for a turn.
func (c *Cursor) takeTurn(ctx context.Context, turns *Turns) error {
	release, err := turns.Take(ctx, c.reader.Owner, c.begun)
	if err != nil {
		return err
	}
	c.begun, c.turn = true, turnHeld{turns, time.Now(), release}
	return nil
}

func (c *Cursor) endTurn() {
	if c.turn.release != nil {
		c.turn.release()
		c.turn.release = nil
	}
}

// passTurn lets others have their turn, where they wait for one and this one was
// long.
func (c *Cursor) passTurn(ctx context.Context) error {
	if time.Since(c.turn.since) < turnTime || c.turn.turns.Alone() {
		return nil
	}
	c.endTurn()
	return c.takeTurn(ctx, c.turn.turns)
}

// Range returns a cursor over the leaves from index from on, at most limit of
// them (0: no limit).
func (s *Service) Range(ctx context.Context, r Reader, from uint64, limit int) (*Cursor, error) {
	extent, err := s.extent(ctx, r)
	if err != nil {
		return nil, err
	}
	c := &Cursor{service: s, reader: r, next: from, end: extent.leaves, size: extent.leaves}
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

// Position is the index of the next leaf to be read, or looked through.
func (c *Cursor) Position() uint64 { return c.next }

// Next reads the next chunk and calls yield for each memory in it that
// matches. There may be none in a chunk and still be more to come.
//
// The work is done in the owner's turn, unless it is a short list whose rows are
// kept; yield is called in it and should not wait for anybody.
func (c *Cursor) Next(ctx context.Context, yield func(*View) error) error {
	turns, short := c.service.Turns, c.short()
	if short && c.search == nil {
		if kept, err := c.keptRows(yield); kept {
			return err
		}
	}
	if short {
		turns = c.service.Short
		if !c.begun {
			c.rows = shortRows
		}
	}
	if err := c.takeTurn(ctx, turns); err != nil {
		return err
	}
	defer c.endTurn()
	if c.Abandoned != nil && c.Abandoned() {
		return ErrAbandoned
	}
	if c.search != nil {
		return c.nextMatches(ctx, yield)
	}
	limit := int(min(c.end-c.next, cmp.Or(c.rows, chunkRows)))
	read, bytes := 0, 0
	var rows []*memories.Memory // of a short list
	err := memories.Scan(ctx, c.service.Pool, c.reader.Owner, c.next, limit, func(m *memories.Memory) error {
		// Whoever reads slowly has the server keep what is yielded here.
		if bytes >= pieceBytes {
			return errFull
		}
		read++
		bytes += widthOf(m)
		if short {
			rows = append(rows, m)
		}
		return c.open(m, yield)
	})
	full := errors.Is(err, errFull) || errors.Is(err, ErrEnough)
	if err != nil && !full {
		return fmt.Errorf("read memories from %d: %w", c.next, err)
	}
	if !full && read != limit {
		return fmt.Errorf("read memories from %d: %d of %d leaves are in the read model", c.next, read, limit)
	}
	if bytes <= shortBytes {
		c.service.Recent.put(c.reader, rows...)
	}
	c.next += uint64(read)
	c.pace(read, bytes, chunkRows)
	return nil
}

// keptRows yields a short list whose rows are kept, and reports whether they are.
func (c *Cursor) keptRows(yield func(*View) error) (kept bool, err error) {
	rows, kept := c.service.Recent.run(c.reader, c.next, c.end, shortBytes)
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
	if c.opener == nil {
		c.opener = c.key.Opener()
	}
	c.id = append(c.id[:0], m.ID...)
	content, err := c.opener.Open(c.id, m.Sealed)
	if err != nil {
		return err
	}
	v := viewOf(string(content), m)
	return yield(&v)
}

// short reports whether the next piece takes a moment.
func (c *Cursor) short() bool {
	if c.search != nil {
		return uint64(len(c.found))*c.width <= shortBytes && c.service.Bodies.light(c.reader.Owner, c.end, shortBytes)
	}
	left := c.end - c.next
	return left <= shortLeaves && left*c.width <= shortBytes
}

// pace has as many rows read next as have pieceBytes, if they are like those that
// were read now.
func (c *Cursor) pace(rows, bytes int, most uint64) {
	c.rows = max(1, min(most, pieceBytes*uint64(rows)/uint64(max(1, bytes))))
	c.width = uint64(bytes / max(1, rows))
}
