// Package wall looks at both clocks of a process: the monotonic one, which stands still
// while a machine is suspended, and that on the wall, which may be set.
package wall

import "time"

// Since returns how long it is since t by the clock that says more. t comes from [time.Now].
func Since(t time.Time) time.Duration { return -Until(t) }

// Until returns how long it is until t by the clock that says less. t comes from [time.Now],
// by which it has a reading of each.
func Until(t time.Time) time.Duration {
	now := time.Now()
	return min(t.Sub(now), t.Round(0).Sub(now.Round(0)))
}
