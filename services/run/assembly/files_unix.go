//go:build unix

package assembly

import "syscall"

// openFiles is how many files this process may have open: Go raises the soft limit to the
// hard one at its start. ok is false if the limit is not known.
func openFiles() (most uint64, ok bool) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0, false
	}
	return uint64(limit.Cur), true // its type differs between systems
}
