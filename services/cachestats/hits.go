// Package cachestats counts the hits and misses of caches.
package cachestats

import "sync/atomic"

// Counter counts the lookups of one cache. The zero value is ready; it must not be
// copied.
type Counter struct{ Hits, Misses atomic.Uint64 }

// Count counts one lookup and returns hit, so that it can wrap the condition that tests
// the lookup.
func (c *Counter) Count(hit bool) bool {
	if hit {
		c.Hits.Add(1)
	} else {
		c.Misses.Add(1)
	}
	return hit
}
