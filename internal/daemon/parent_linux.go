package daemon

import "syscall"

// DieWithParent makes the kernel send a process the signal last when the thread that started it
// ends.
func DieWithParent(attr *syscall.SysProcAttr, last syscall.Signal) { attr.Pdeathsig = last }
