// Package archtest tests the rules that no compiler checks: which package may import
// which, what the repository must not contain, and that the documents' commands, links,
// words and lengths are as they should be.
package archtest
