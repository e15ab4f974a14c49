//go:build !linux

package sqlite

import "time"

// canWatch is false: there is inotify on Linux only. A watch by kqueue opens the files and closes
// them again, by which the process loses all locks that SQLite has on them; and to look again and
// again costs an idle process more than its scans do.
const canWatch = false

// watch is never made.
type watch struct{}

func newWatch(*files) (*watch, error) { return nil, nil }

func (*watch) close() {}

func (*watch) wait(time.Duration) (seen, error) { return seen{}, nil }

func (*watch) touch() error { return nil }
