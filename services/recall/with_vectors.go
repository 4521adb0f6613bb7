package recall

import (
	"math"
	"strings"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/services/cachestats"
)

// queriesKept is how many queries' vectors are kept, so that the later pages of an answer
// need no call.
const queriesKept = 1024

// VectorCache keeps opened pages of vectors, within a budget of bytes, and the vectors of
// queries. They reveal much about texts, so they are dropped with the owner's key.
type VectorCache struct {
	mu      sync.Mutex
	budget  int64
	used    int64
	pages   *simplelru.LRU[vectorKey, *vectorPage]
	queries *simplelru.LRU[queryKey, vector]
	drops   uint64
	// Hits counts the lookups of pages: a hit is a page that was kept.
	Hits cachestats.Counter
}

type vectorKey struct {
	owner events.Owner
	page  uint64
}

type queryKey struct {
	owner events.Owner
	query string
}

// NewVectorCache returns a cache of at most budget bytes of pages.
func NewVectorCache(budget int64) *VectorCache {
	c := &VectorCache{budget: budget}
	var errPages, errQueries error
	c.pages, errPages = simplelru.NewLRU(math.MaxInt32, func(_ vectorKey, p *vectorPage) { c.used -= p.bytes() })
	c.queries, errQueries = simplelru.NewLRU[queryKey, vector](queriesKept, nil)
	if errPages != nil || errQueries != nil {
		panic("a size that is not positive")
	}
	return c
}

// Bytes returns how many bytes of pages are kept.
func (c *VectorCache) Bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

// Drop drops the pages of an owner, as when the owner's key is forgotten. For the empty
// owner it drops all pages. A page that is being made meanwhile is not kept either.
func (c *VectorCache) Drop(owner events.Owner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	c.queries.Purge()
	for _, key := range c.pages.Keys() {
		if owner == "" || key.owner == owner {
			c.pages.Remove(key)
		}
	}
}

// Forget drops everything.
func (c *VectorCache) Forget() { c.Drop("") }

// generation changes when anything is dropped.
func (c *VectorCache) generation() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.drops
}

// get returns a page, or nil if it is not kept.
func (c *VectorCache) get(key vectorKey) *vectorPage {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.pages.Get(key)
	c.Hits.Count(ok)
	return p
}

func (c *VectorCache) put(key vectorKey, p *vectorPage, drops uint64) {
	pressed := pressed()
	c.mu.Lock()
	defer c.mu.Unlock()
	if pressed {
		c.pages.Purge()
		return
	}
	c.pages.Remove(key)
	if c.drops != drops || p.bytes() > c.budget {
		return
	}
	c.pages.Add(key, p)
	for c.used += p.bytes(); c.used > c.budget; {
		c.pages.RemoveOldest()
	}
}

func (c *VectorCache) query(key queryKey) vector {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, _ := c.queries.Get(key)
	return v
}

func (c *VectorCache) putQuery(key queryKey, v vector, drops uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops == drops {
		key.query = strings.Clone(key.query) // it may be a short part of a long body, which it would keep alive
		c.queries.Add(key, v)
	}
}
