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
