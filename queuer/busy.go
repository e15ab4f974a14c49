package queuer

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// busy are the lanes of which this process has a batch under way, and until when they are
// left alone for that at most, where nothing else of such a lane may leave: a look at one
// would be in vain, and whoever hears meanwhile that it may go on would wait for its end.
// Nothing depends on it: a lane that another process has set free, which tells nobody
// here, is looked at again after [Options.Busy].
type busy map[batch.ServiceID]time.Time

// left returns for how long a lane is to be left alone.
func (b busy) left(s batch.ServiceID, now time.Time) time.Duration {
	return max(0, b[s].Sub(now))
}

// sweep forgets those of which nothing was heard.
func (b busy) sweep(now time.Time) {
	for s, until := range b {
		if !until.After(now) {
			delete(b, s)
		}
	}
}

// Added says that something was added to lanes. One of which a batch is under way is looked
// at once that is over.
func (q *Queuer) Added(lanes ...batch.ServiceID) {
	q.hintAll(lanes, 0)
	q.Wake()
}

// Over says that nothing of a lane is under way any more, as far as is known here.
func (q *Queuer) Over(s batch.ServiceID) {
	q.mu.Lock()
	_, was := q.busy[s]
	q.mu.Unlock()
	if was {
		q.Hint(s) // it may have been named meanwhile
	}
}
