// Package testkit holds what the tests of all packages share.
package testkit

import (
	"testing"
	"time"
)

// Must ends a test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ErrorOf leaves out the value of a call that a test makes only for its effect.
func ErrorOf(_ any, err error) error { return err }

// Slow skips a test that takes long, or that installs what it needs, where -short is set. The
// Makefile finds such tests by their call slow(t), so packages call it by that name.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("slow: make verify runs it")
	}
}

// Await waits until something happens that gives no signal, for two minutes at most.
func Await(t testing.TB, what string, happens func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !happens(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("still not: " + what)
		}
	}
}
