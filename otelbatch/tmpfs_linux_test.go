package otelbatch

import (
	"fmt"
	"syscall"
	"testing"
)

// tmpfs mounts a file system of that many bytes. It returns the folder and a func that changes the
// size. The error is the system's: in most cases only root may mount.
func tmpfs(t *testing.T, bytes int) (dir string, resize func(bytes int) error, err error) {
	t.Helper()
	dir = t.TempDir()
	size := func(n int) string { return fmt.Sprintf("size=%d", n) }
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, size(bytes)); err != nil {
		return "", nil, err
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir, func(n int) error { return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, size(n)) }, nil
}
