// Package wall reads both clocks of a process: the monotonic clock, which stands still while a
// machine is suspended, and the wall clock, which may be set.
package wall

import "time"

// Since returns the time since t by the clock that shows more. t comes from [time.Now].
func Since(t time.Time) time.Duration { return -Until(t) }

// Until returns the time until t by the clock that shows less. t comes from [time.Now], so it has
// a reading of both clocks.
func Until(t time.Time) time.Duration {
	now := time.Now()
	return min(t.Sub(now), t.Round(0).Sub(now.Round(0)))
}
