// Package archtest tests the rules that no compiler checks: which package may import
// which, what the repository must not contain, and that every invariant in
// docs/invariants.md links to its check and its test.
package archtest
