package sawtoothtest

import "time"

// The validator answers clients on a few threads. A status query that waits holds one until
// its wait is over, even when the REST API has given up on it. When all are held all clients
// stall, submissions too (docs/ledgers/sawtooth.md#asking-for-statuses).

const clientThreads = 5

// mustQueue reports whether a request has to queue.
func (v *validator) mustQueue() bool {
	return len(v.waits) >= clientThreads || len(v.backlog) > 0
}

// freeThreads ends the waits without a pending batch and runs the requests that queue for a
// thread.
func (v *validator) freeThreads(now time.Time) {
	v.endWaits(func(w *statusWait) bool { return !v.anyPending(now, w) })
	for len(v.backlog) > 0 && len(v.waits) < clientThreads {
		t := v.backlog[0]
		v.backlog = v.backlog[1:]
		v.runTask(now, t)
	}
}

// expireWaits ends the waits that have timed out, and reports whether there were any.
func (v *validator) expireWaits(now time.Time) bool {
	return v.endWaits(func(w *statusWait) bool { return !w.until.After(now) })
}

func (v *validator) endWaits(over func(*statusWait) bool) (ended bool) {
	kept := v.waits[:0]
	for _, w := range v.waits {
		if over(w) {
			w.done, ended = true, true
			continue
		}
		kept = append(kept, w)
	}
	clear(v.waits[len(kept):])
	v.waits = kept
	return ended
}

// anyPending reports whether a wait must go on: an UNKNOWN id does not count.
func (v *validator) anyPending(now time.Time, w *statusWait) bool {
	for _, id := range w.ids {
		if v.tracker.peekStatus(now, id) == Pending {
			return true
		}
	}
	return false
}
