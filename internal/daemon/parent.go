//go:build !linux

package daemon

import "syscall"

// DieWithParent does nothing: only Linux has such a signal.
func DieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
