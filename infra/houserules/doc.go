// Package houserules holds the rules that no compiler checks, as tests: who
// may import whom, what must never stand in the repository, and that every
// invariant in docs/invariants.md leads to its check and its test.
package houserules
