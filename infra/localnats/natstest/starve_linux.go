package natstest

import "golang.org/x/sys/unix"

// limitFiles limits how many files a process may have open, and returns the limit that
// it had before. Open files stay open.
func limitFiles(pid int, limit uint64) (before uint64, err error) {
	var is unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &is); err != nil {
		return 0, err
	}
	before, is.Cur = is.Cur, limit
	return before, unix.Prlimit(pid, unix.RLIMIT_NOFILE, &is, nil)
}
