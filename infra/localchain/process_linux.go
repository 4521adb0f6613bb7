package localchain

import "syscall"

// followParent has the kernel ask the server to end when its parent is gone, and
// keeps a terminal's Ctrl-C from it: the parent stops it when it is done with it.
func followParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}
