// Package archtest tests the rules that no compiler checks: who may import
// whom, what must never stand in the repository, and that every
// invariant in docs/invariants.md leads to its check and its test.
package archtest
