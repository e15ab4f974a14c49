package engine

import (
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// uncommittedLanes are lanes to which an application's transaction has added. Nobody tells that
// such a transaction is committed, unless the application calls Wake. So each lane is looked at
// once more, after the time that a scan took before Runners rested.
type uncommittedLanes struct {
	wakeAfter time.Duration
	wake      func(batch.ServiceID)

	mu     sync.Mutex
	timers map[batch.ServiceID]*time.Timer
}

// add notes a lane. It is looked at once, however often it is noted meanwhile.
func (u *uncommittedLanes) add(s batch.ServiceID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timers == nil {
		u.timers = map[batch.ServiceID]*time.Timer{}
	}
	if u.timers[s] == nil {
		u.timers[s] = time.AfterFunc(u.wakeAfter, func() {
			u.cancel(s)
			u.wake(s)
		})
	}
}

// cancel says that somebody has told of a lane.
func (u *uncommittedLanes) cancel(s batch.ServiceID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if t := u.timers[s]; t != nil {
		t.Stop()
		delete(u.timers, s)
	}
}
