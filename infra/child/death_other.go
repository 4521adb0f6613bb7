//go:build unix && !linux

package child

import "syscall"

// No such thing here: the next start on the child's folder stops a leftover.
func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}
