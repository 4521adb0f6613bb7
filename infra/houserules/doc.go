// Package houserules holds the rules that no compiler checks, as tests: who
// may import whom, and what must never stand in the repository.
package houserules
