package store

import "time"

// Ready exports ready to the tests.
func (r Row) Ready(now time.Time) bool { return r.ready(now) }

// BackToMonitor exports backToMonitor to the tests.
func (r Row) BackToMonitor(now time.Time) Row { return r.backToMonitor(now) }

// Waited exports withWaitPutOff to the tests.
func (r Row) Waited(now time.Time, after time.Duration) Row { return r.withWaitPutOff(now, after) }
