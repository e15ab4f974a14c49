package ask_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

// Rows whose lease may have been written are asked about at once, because no other process gets
// them before the lease ends.
func TestWhatMayBeLeasedIsAskedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		first := true
		w.lostPendingError = func() error {
			if !first {
				return nil
			}
			first = false
			return errStore
		}
		w.add("s", "a", 0)
		_, stop := w.start(t, nil)
		sleepAndWait(100 * time.Millisecond)
		stop()
		assert.Equal(t, []string{"a is committed"}, w.findings())
		assert.Len(t, w.troubles, 1, "and it is told")
	})
}

// If the write of the next checks fails, that write alone is repeated, and the rows do not wait
// for the end of their leases.
func TestNextChecksAreSetAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newMonitorTest()
		w.answer = alwaysReported(batch.ReportedPending)
		n := 0
		w.checkedError = func() error {
			if n++; n%4 != 0 { // three failures in a row
				return errStore
			}
			return nil
		}
		w.add("s", "a", 0)
		_, stop := w.start(t, nil)
		sleepAndWait(10 * pollInterval)
		stop()
		assert.GreaterOrEqual(t, len(w.askTimes("a")), 8)
	})
}
