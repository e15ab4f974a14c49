// Package walltest makes times on which a process's wall clock and monotonic clock disagree.
package walltest

import (
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// Slept returns the time at as it appears after the machine was suspended for d: the monotonic
// clock stood still meanwhile, so by that clock at is as far away as before, and by the wall clock
// it is d nearer. at must come from [time.Now], outside of a bubble of testing/synctest: times in
// a bubble have no monotonic reading.
func Slept(t testing.TB, at time.Time, d time.Duration) time.Time {
	t.Helper()
	slept := at.Add(-d) // moved by both clocks
	// The second word of a time.Time with a monotonic reading holds that reading. The checks
	// below fail if a later version of Go keeps it elsewhere.
	*(*int64)(unsafe.Add(unsafe.Pointer(&slept), unsafe.Sizeof(uint64(0)))) += int64(d) //nolint:gosec // see above
	require.Zero(t, slept.Sub(at), "by the monotonic clock")
	require.Equal(t, d, at.Round(0).Sub(slept.Round(0)), "by the wall clock")
	return slept
}
