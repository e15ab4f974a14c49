package sawtoothtest

import "time"

// The validator answers clients with a few threads. A status query that waits uses one of them
// until its wait is over, even if the REST API has given up on the query. When all threads are
// used all clients stall, including those that submit
// (docs/ledgers/sawtooth.md#asking-for-statuses).

const clientThreads = 5

// mustQueue reports whether a request has to wait for a thread.
func (v *validator) mustQueue() bool {
	return len(v.waits) >= clientThreads || len(v.waitingRequests) > 0
}

// freeThreads ends the waits without a pending batch, and runs requests that wait for a thread.
func (v *validator) freeThreads(now time.Time) {
	v.endWaits(func(w *statusWait) bool { return !v.isAnyPending(now, w) })
	for len(v.waitingRequests) > 0 && len(v.waits) < clientThreads {
		t := v.waitingRequests[0]
		v.waitingRequests = v.waitingRequests[1:]
		v.runTask(now, t)
	}
}

// expireWaits ends the waits that have timed out, and reports whether it has ended any.
func (v *validator) expireWaits(now time.Time) bool {
	return v.endWaits(func(w *statusWait) bool { return !w.until.After(now) })
}

func (v *validator) endWaits(over func(*statusWait) bool) (ended bool) {
	kept := v.waits[:0]
	for _, w := range v.waits {
		if over(w) {
			w.isDone, ended = true, true
			continue
		}
		kept = append(kept, w)
	}
	clear(v.waits[len(kept):])
	v.waits = kept
	return ended
}

// isAnyPending reports whether a wait must go on, because one of its batches is PENDING.
func (v *validator) isAnyPending(now time.Time, w *statusWait) bool {
	for _, id := range w.ids {
		if v.tracker.peekStatus(now, id) == Pending {
			return true
		}
	}
	return false
}
