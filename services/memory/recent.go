package memory

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/memories"
	"github.com/memory-ledger/ledger/services/hits"
)

// Recent keeps rows that were read by id, sealed as in the database, within a
// budget of bytes. Of a leaf only one thing ever changes: which batch covers it
// and whether that is confirmed, and once it is, not even that. So a row that is
// anchored is right for good, and another one as long as what the fence says of
// the owner is what it said before that was read.
type Recent struct {
	mu     sync.Mutex
	budget int64
	used   int64
	rows   *simplelru.LRU[string, recentRow]
	// Hits counts the reads by id that needed no database.
	Hits hits.Counter
}

// Bytes returns how much is kept.
func (r *Recent) Bytes() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// rowOverhead is about what a row takes beside its texts.
const rowOverhead = 256

type recentRow struct {
	memory memories.Memory
	head   uint64 // what fence.WaitOwnerHead returned before it was read
}

// NewRecent returns a cache of at most budget bytes.
func NewRecent(budget int64) *Recent {
	r := &Recent{budget: budget}
	rows, err := simplelru.NewLRU(math.MaxInt32, func(_ string, row recentRow) { r.used -= row.bytes() })
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	r.rows = rows
	return r
}

func (row recentRow) bytes() int64 {
	return int64(len(row.memory.Sealed)+row.memory.Metadata.Len()) + 2*rowOverhead
}

func (r *Recent) get(owner events.Owner, id string, head uint64) (memories.Memory, bool) {
	if r == nil {
		return memories.Memory{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	row, ok := r.rows.Get(id)
	ok = ok && row.memory.Owner == owner && (row.memory.Anchored || head != 0 && row.head == head)
	if !r.Hits.Count(ok) {
		return memories.Memory{}, false
	}
	return row.memory, true
}

// put keeps a row that was read after fence.WaitOwnerHead returned head, 0 where
// that is not known. It takes the row's memory over.
func (r *Recent) put(m *memories.Memory, head uint64) {
	if r == nil || (!m.Anchored && head == 0) {
		return
	}
	row := recentRow{*m, head}
	r.mu.Lock()
	defer r.mu.Unlock()
	if row.bytes() > r.budget {
		return
	}
	r.rows.Remove(m.ID)
	r.used += row.bytes()
	r.rows.Add(m.ID, row)
	for r.used > r.budget {
		r.rows.RemoveOldest()
	}
}
