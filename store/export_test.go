package store

import "time"

// Ready is ready, for the tests.
func (r Row) Ready(now time.Time) bool { return r.ready(now) }

// BackToMonitor is backToMonitor, for the tests.
func (r Row) BackToMonitor(now time.Time) Row { return r.backToMonitor(now) }

// Waited is waited, for the tests.
func (r Row) Waited(now time.Time, after time.Duration) Row { return r.withWaitPutOff(now, after) }
