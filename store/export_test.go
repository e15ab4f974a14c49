package store

import "time"

// IsReady exports isReady to the tests.
func (r Row) IsReady(now time.Time) bool { return r.isReady(now) }

// BackToMonitor exports backToMonitor to the tests.
func (r Row) BackToMonitor(now time.Time) Row { return r.backToMonitor(now) }

// WithWaitPutOff exports withWaitPutOff to the tests.
func (r Row) WithWaitPutOff(now time.Time, after time.Duration) Row {
	return r.withWaitPutOff(now, after)
}
