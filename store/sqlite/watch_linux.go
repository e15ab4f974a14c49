package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// canWatch is true if the system reports that a file was written, at no cost until then.
const canWatch = true

// watch reports that the log of a database, or the database's file, was written or replaced, by
// inotify. It watches their directory, so that it also works after the log was deleted and made
// again. It opens neither file, because a process that closes any descriptor of a file loses all
// locks that SQLite has on that file in this process.
type watch struct {
	events *os.File
	paths  [2]string // of the log and of the database's file
	names  [2]string
	buf    [4096]byte
}

// watchedEvents are the events of the directory that a watch asks for.
const watchedEvents = syscall.IN_MODIFY | syscall.IN_ATTRIB | syscall.IN_CREATE | syscall.IN_MOVED_TO | syscall.IN_MOVED_FROM |
	syscall.IN_DELETE | syscall.IN_DELETE_SELF | syscall.IN_MOVE_SELF

func newWatch(f *databaseFiles) (*watch, error) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	w := &watch{
		events: os.NewFile(uintptr(fd), "inotify"), paths: [2]string{f.logPath(), f.path},
		names: [2]string{filepath.Base(f.logPath()), filepath.Base(f.path)},
	}
	if _, err := syscall.InotifyAddWatch(fd, filepath.Dir(f.path), watchedEvents); err != nil {
		w.close()
		return nil, os.NewSyscallError("inotify_add_watch", err)
	}
	return w, nil
}

// close closes the watch, and ends a wait.
func (w *watch) close() { _ = w.events.Close() }

// wait returns what has happened since the last wait. If that is nothing, it waits for an event,
// at most for d.
func (w *watch) wait(d time.Duration) (observation, error) {
	raw, err := w.events.SyscallConn()
	if err != nil {
		return observation{}, err
	}
	var all observation
	var failed error
	drain := func(fd uintptr) { all, failed = w.drain(int(fd)) }
	if d <= 0 {
		// SyscallConn is used because a Read would return the error of an earlier deadline without
		// reading the events.
		err = raw.Control(drain)
		return all, errors.Join(err, failed)
	}
	if err := w.events.SetReadDeadline(time.Now().Add(d)); err != nil {
		return observation{}, err
	}
	err = raw.Read(func(fd uintptr) bool {
		drain(fd)
		return failed != nil || all != (observation{})
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return all, errors.Join(err, failed)
}

// drain reads all events that have arrived.
func (w *watch) drain(fd int) (all observation, err error) {
	for {
		n, err := syscall.Read(fd, w.buf[:])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return all, nil
		case err != nil:
			return all, os.NewSyscallError("read", err)
		}
		s := w.parseEvents(w.buf[:n])
		all.isWritten, all.isTouched = all.isWritten || s.isWritten, all.isTouched || s.isTouched
	}
}

// parseEvents combines the events in b, each a struct inotify_event (see inotify(7)). If the
// kernel has dropped events, or the directory itself was moved, it reports a write: the caller
// then reads the database, and finds out what has changed.
func (w *watch) parseEvents(b []byte) (s observation) {
	for len(b) >= syscall.SizeofInotifyEvent {
		mask, size := binary.NativeEndian.Uint32(b[4:]), int(binary.NativeEndian.Uint32(b[12:]))
		b = b[syscall.SizeofInotifyEvent:]
		size = min(size, len(b))
		name := string(bytes.TrimRight(b[:size], "\x00"))
		b = b[size:]
		ours := name == w.names[0] || name == w.names[1]
		switch {
		case mask&syscall.IN_ATTRIB != 0:
			s.isTouched = s.isTouched || ours
		case ours, name == "":
			s.isWritten = true
		}
	}
	return s
}

// touch sets the times of the log; if no connection is open and there is no log, the times of the
// database's file. That causes an event. On some file systems it does not, and neither does any
// write there.
func (w *watch) touch() error {
	now := time.Now()
	err := os.Chtimes(w.paths[0], now, now)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Chtimes(w.paths[1], now, now)
	}
	return err
}
