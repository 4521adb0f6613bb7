package memoryledger

import (
	"os"
	"syscall"
	"unsafe"
)

var lockFileEx = syscall.NewLazyDLL("kernel32.dll").NewProc("LockFileEx")

// lockFile waits until this process alone holds the file. Closing the file ends the lock.
func lockFile(file *os.File) error {
	const exclusive, all = 2, ^uintptr(0) & 0xffffffff
	ok, _, err := lockFileEx.Call(file.Fd(), exclusive, 0, all, all, uintptr(unsafe.Pointer(new(syscall.Overlapped))))
	if ok == 0 {
		return err
	}
	return nil
}
