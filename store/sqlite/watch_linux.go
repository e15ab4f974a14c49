package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// canWatch says that the system tells when a file was written, and takes no time until then.
const canWatch = true

// watch tells when the log of a database, or the database's file, was written or replaced: by
// inotify. It watches their directory, so that it goes on where the log is deleted and made anew. It
// opens neither file: a process that closes any descriptor of a file loses all locks that SQLite
// has on the file in this process.
type watch struct {
	events *os.File
	paths  [2]string // of the log and of the database's file
	names  [2]string
	buf    [4096]byte
}

// watched is what happens to a directory.
const watched = syscall.IN_MODIFY | syscall.IN_ATTRIB | syscall.IN_CREATE | syscall.IN_MOVED_TO | syscall.IN_MOVED_FROM |
	syscall.IN_DELETE | syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF

func newWatch(f *files) (*watch, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &watch{
		events: os.NewFile(uintptr(fd), "inotify"), paths: [2]string{f.log(), f.path},
		names: [2]string{filepath.Base(f.log()), filepath.Base(f.path)},
	}
	if _, err := syscall.InotifyAddWatch(fd, filepath.Dir(f.path), watched); err != nil {
		w.close()
		return nil, os.NewSyscallError("inotify_add_watch", err)
	}
	return w, nil
}

// close ends wait, too.
func (w *watch) close() { _ = w.events.Close() }

// wait waits until something was written, for d at most.
func (w *watch) wait(d time.Duration) (seen, error) {
	if err := w.events.SetReadDeadline(time.Now().Add(d)); err != nil {
		return seen{}, err
	}
	for {
		n, err := w.events.Read(w.buf[:])
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return seen{}, nil
		case err != nil:
			return seen{}, err
		}
		if s := w.read(w.buf[:n]); s != (seen{}) {
			return s, nil
		}
	}
}

// since returns what has happened by now.
func (w *watch) since() (all seen, err error) {
	raw, err := w.events.SyscallConn()
	if err != nil {
		return all, err
	}
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, err := syscall.Read(int(fd), w.buf[:])
			switch {
			case errors.Is(err, syscall.EINTR):
				continue
			case errors.Is(err, syscall.EAGAIN):
				return true
			case err != nil:
				failed = os.NewSyscallError("read", err)
				return true
			}
			s := w.read(w.buf[:n])
			all.written, all.touched = all.written || s.written, all.touched || s.touched
		}
	})
	return all, errors.Join(err, failed)
}

// read sums up events: struct inotify_event in inotify(7). Where the kernel has dropped some, or the
// directory itself was moved, it takes them for writes: the look that follows finds out.
func (w *watch) read(b []byte) (s seen) {
	for len(b) >= syscall.SizeofInotifyEvent {
		mask, size := binary.NativeEndian.Uint32(b[4:]), int(binary.NativeEndian.Uint32(b[12:]))
		b = b[syscall.SizeofInotifyEvent:]
		size = min(size, len(b))
		name := string(bytes.TrimRight(b[:size], "\x00"))
		b = b[size:]
		ours := name == w.names[0] || name == w.names[1]
		switch {
		case mask&syscall.IN_ATTRIB != 0:
			s.touched = s.touched || ours
		case ours, name == "":
			s.written = true
		}
	}
	return s
}

// test touches the log, or the database's file where no connection is open and there is no log. It
// reports an error where that is not seen: on some file systems nothing ever is.
func (w *watch) test() error {
	now, path := time.Now(), w.paths[0]
	err := os.Chtimes(path, now, now)
	if errors.Is(err, fs.ErrNotExist) {
		path = w.paths[1]
		err = os.Chtimes(path, now, now)
	}
	if err != nil {
		return err
	}
	s, err := w.wait(time.Second)
	if err == nil && s == (seen{}) {
		err = fmt.Errorf("inotify does not show what is written to %s", path)
	}
	return err
}
