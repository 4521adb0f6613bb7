package natstest

import "golang.org/x/sys/unix"

// awaitStopped returns when every thread of the child has stopped. Sending SIGSTOP
// returns before that.
func awaitStopped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return err
		}
	}
}

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
