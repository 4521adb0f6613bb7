// Package hits counts how often caches had what they were asked for.
package cachestats

import "sync/atomic"

// Counter is the count of one cache. The zero value is ready; it must not be
// copied.
type Counter struct{ hits, misses atomic.Uint64 }

// Count notes one lookup and returns what it was told, so that it can stand
// where the lookup's answer is tested.
func (c *Counter) Count(hit bool) bool {
	if hit {
		c.hits.Add(1)
	} else {
		c.misses.Add(1)
	}
	return hit
}

// Counts returns how often the cache had it, and how often not.
func (c *Counter) Counts() (hits, misses uint64) { return c.hits.Load(), c.misses.Load() }
