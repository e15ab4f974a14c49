// Package walltest makes times of which the two clocks of a process do not say the same.
package walltest

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Slept is at, which was reckoned from [time.Now], as it is on a machine that was suspended
// for d since then: by the monotonic clock it is as far off as it was, and by the wall
// clock d nearer. Outside of a bubble of testing/synctest only: times in there have no
// monotonic reading.
func Slept(t testing.TB, at time.Time, d time.Duration) time.Time {
	t.Helper()
	slept := at.Add(-d) // by both
	// The second word of a time.Time that has a monotonic reading is that. What follows
	// fails if it is not so any more.
	*(*int64)(unsafe.Add(unsafe.Pointer(&slept), unsafe.Sizeof(uint64(0)))) += int64(d) //nolint:gosec // see above
	require.Zero(t, slept.Sub(at), "by the monotonic clock")
	require.Equal(t, d, at.Round(0).Sub(slept.Round(0)), "by the wall clock")
	return slept
}
