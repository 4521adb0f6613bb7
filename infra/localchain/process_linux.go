package localchain

import "syscall"

// followParent has the kernel ask the server to end when its parent is gone.
func followParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
