//go:build !unix

package assembly

// openFiles is how many files this process may have open. ok is false if the limit is not
// known.
func openFiles() (most uint64, ok bool) { return 0, false }
