// Package heap measures memory. A test that uses it must not run in parallel with others.
package heap

import "runtime"

// Live returns how many bytes the live objects take.
func Live() int64 {
	runtime.GC()
	runtime.GC() // collects what pools released in the first
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
