// Package testkit holds what the tests of all packages share.
package testkit

import "testing"

// Must ends a test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
