package queuer

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// busy maps each lane with a batch of this process under way to the time until which the
// queuer leaves it alone at most. No other batch of such a lane may leave, so a look at it is
// in vain, and a hint that the lane is free would wait for the end of that look. Nothing
// depends on busy: another process that frees a lane does not notify this one, and the lane is
// looked at again after [Options.Busy].
type busy map[batch.ServiceID]time.Time

// left returns for how long a lane is still left alone.
func (b busy) left(s batch.ServiceID, now time.Time) time.Duration {
	return max(0, b[s].Sub(now))
}

// sweep forgets lanes whose time is over.
func (b busy) sweep(now time.Time) {
	for s, until := range b {
		if !until.After(now) {
			delete(b, s)
		}
	}
}

// Added says that batches were added to lanes. The queuer looks at a busy lane as soon as its
// batch is over.
func (q *Queuer) Added(lanes ...batch.ServiceID) {
	q.hintAll(lanes, 0)
	q.Wake()
}

// Over says that a lane has nothing under way any more, as far as this process knows.
func (q *Queuer) Over(s batch.ServiceID) {
	q.mu.Lock()
	_, was := q.busy[s]
	q.mu.Unlock()
	if was {
		q.Hint(s) // the lane may have been named meanwhile
	}
}
