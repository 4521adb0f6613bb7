//go:build !linux

package localchain

import "syscall"

// followParent has nothing to ask of this system: the end of its standard input
// tells the server.
func followParent() *syscall.SysProcAttr { return nil }
