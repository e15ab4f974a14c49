//go:build !linux

package sqlite

import "time"

// canWatch is false, because only Linux has inotify. A watch by kqueue opens and closes the files,
// by which the process loses all locks that SQLite has on them. Polling would cost an idle process
// more than its scans do.
const canWatch = false

// watch is not used on this system.
type watch struct{}

func newWatch(*databaseFiles) (*watch, error) { return nil, nil }

func (*watch) close() {}

func (*watch) wait(time.Duration) (observation, error) { return observation{}, nil }

func (*watch) touch() error { return nil }
