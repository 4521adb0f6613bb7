//go:build unix && !linux

package localchain

import "syscall"

// followParent keeps a terminal's Ctrl-C from the server: the parent stops it
// when it is done with it. That the parent is gone, the end of standard input
// tells.
func followParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
