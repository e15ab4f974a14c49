package queuer_test

import (
	"syscall"
	"time"
	"unsafe"
)

// threadTime is the CPU time of the calling thread: the cost of a func on a machine that
// others keep busy. It goes with runtime.LockOSThread.
func threadTime() time.Duration {
	const threadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	if _, _, err := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&ts)), 0); err != 0 {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
