//go:build unix && !linux

package child

import "syscall"

// setDeathSignal does nothing, because this system has no such signal. The next start on
// the child's folder stops a leftover child.
func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}
