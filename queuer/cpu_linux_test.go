package queuer_test

import (
	"syscall"
	"time"
	"unsafe"
)

// threadTime returns the CPU time of the calling thread, which measures a func's cost also on a
// busy machine. The caller uses runtime.LockOSThread.
func threadTime() time.Duration {
	const threadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	if _, _, err := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&ts)), 0); err != 0 {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
