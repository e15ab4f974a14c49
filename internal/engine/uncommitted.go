package engine

import (
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// uncommittedLanes has the lanes to which an application's transaction has added batches. Unless
// the application calls Wake, nothing tells when such a transaction is committed. So each lane is
// looked at once more after wakeAfter, the time in which a scan would find the batches if Runners
// did not rest.
type uncommittedLanes struct {
	wakeAfter time.Duration
	wakeLane  func(batch.ServiceID)

	mu     sync.Mutex
	timers map[batch.ServiceID]*time.Timer
}

// add notes a lane. A noted lane is looked at once, however often it is added meanwhile.
func (u *uncommittedLanes) add(s batch.ServiceID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timers == nil {
		u.timers = map[batch.ServiceID]*time.Timer{}
	}
	if u.timers[s] == nil {
		u.timers[s] = time.AfterFunc(u.wakeAfter, func() {
			u.cancel(s)
			u.wakeLane(s)
		})
	}
}

// cancel removes a lane that Wake has named.
func (u *uncommittedLanes) cancel(s batch.ServiceID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if t := u.timers[s]; t != nil {
		t.Stop()
		delete(u.timers, s)
	}
}
