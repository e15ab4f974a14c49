//go:build !linux

package daemon

import "syscall"

// DieWithParent does nothing: only Linux's kernel can.
func DieWithParent(*syscall.SysProcAttr, syscall.Signal) {}
