package memory

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/readmodel/memories"
	"github.com/memory-ledger/ledger/services/cachestats"
)

// RowCache keeps rows that were read by id or in short lists, sealed as in the database,
// within a budget of bytes. A leaf gets anchored, and may be retracted, so a row is valid
// only while the fence returns the same head for the owner as before the row was read.
type RowCache struct {
	mu     sync.Mutex
	budget int64
	used   int64
	rows   *simplelru.LRU[string, recentRow] // by id
	ids    map[place]string                  // of the rows
	// Hits counts the reads by id, and the short lists, that needed no database.
	Hits cachestats.Counter
}

// place is a memory's permanent position.
type place struct {
	owner events.Owner
	leaf  uint64
}

// Bytes returns the size of all kept rows.
func (r *RowCache) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// rowOverhead is about the size of a row without its texts.
const rowOverhead = 640

type recentRow struct {
	memory *memories.Memory // immutable
	head   fence.Head       // the fence's head from before the row was read
}

// NewRowCache returns a cache of at most budget bytes.
func NewRowCache(budget int64) *RowCache {
	r := &RowCache{budget: budget, ids: map[place]string{}}
	rows, err := simplelru.NewLRU(math.MaxInt32, func(_ string, row recentRow) {
		delete(r.ids, row.place())
		r.used -= row.bytes()
	})
	if err != nil {
		panic(err) // only if the size is not positive
	}
	r.rows = rows
	return r
}

func (row recentRow) place() place { return place{row.memory.Owner, row.memory.LeafIndex} }

func (row recentRow) bytes() int64 {
	return int64(widthOf(row.memory)) + rowOverhead
}

// isFor reports whether a row is valid for a reader.
func (row recentRow) isFor(reader Reader) bool {
	return row.memory.Owner == reader.Owner && reader.Head.Known() && row.head == reader.Head
}

// knowsMore reports whether the row includes an event that the other one lacks.
func (row recentRow) knowsMore(m *memories.Memory) bool {
	return row.memory.Anchored && !m.Anchored || row.memory.Retracted && !m.Retracted
}

// get returns a row by its id.
func (r *RowCache) get(reader Reader, id string) (*memories.Memory, bool) {
	if r == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	row, ok := r.rows.Get(id)
	if !r.Hits.Count(ok && row.isFor(reader)) {
		return nil, false
	}
	return row.memory, true
}

// run returns the rows of a range of leaves, if all of them are kept and valid, and have at
// most that many bytes.
func (r *RowCache) run(reader Reader, from, to uint64, most int) ([]*memories.Memory, bool) {
	if r == nil {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := make([]*memories.Memory, 0, to-from)
	for leaf := from; leaf < to; leaf++ {
		row, ok := r.rows.Get(r.ids[place{reader.Owner, leaf}])
		if !ok || !row.isFor(reader) {
			break
		}
		if most -= widthOf(row.memory); most < 0 {
			break
		}
		rows = append(rows, row.memory)
	}
	if !r.Hits.Count(uint64(len(rows)) == to-from) {
		return nil, false
	}
	return rows, true
}

// widthOf returns about how many bytes a row adds to an answer.
func widthOf(m *memories.Memory) int { return len(m.Sealed) + m.Metadata.Len() }

// put stores rows that were read after the fence returned the reader's head. It takes
// ownership of them.
func (r *RowCache) put(reader Reader, rows ...*memories.Memory) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, m := range rows {
		r.keep(recentRow{m, reader.Head})
	}
}

// keep stores a row. It does not replace a row of a newer head, or one that knows more at
// the same head: a slower reader may have read its row earlier.
func (r *RowCache) keep(row recentRow) {
	m := row.memory
	if !row.head.Known() || row.bytes() > r.budget {
		return
	}
	if was, ok := r.rows.Peek(m.ID); ok && (row.head.Before(was.head) || row.head == was.head && was.knowsMore(m)) {
		return
	}
	r.rows.Remove(m.ID)
	r.used += row.bytes()
	r.rows.Add(m.ID, row)
	r.ids[row.place()] = m.ID
	for r.used > r.budget {
		r.rows.RemoveOldest()
	}
}
