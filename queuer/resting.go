package queuer

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// resting is until when lanes are left alone whose window was read: the more of them
// was read, the longer. There is a hint each time that a batch of a lane is final,
// added, or cut off by a limit, and one look serves them all. A lane that nothing
// was read of for a while is looked at at once.
type resting map[batch.ServiceID]time.Time

// restPerBatch makes a lane of a thousand open batches be read a hundred times a
// second at most. Of one that shows few, the pause is not worth keeping.
const (
	restPerBatch = 10 * time.Microsecond
	restFrom     = 100 // batches
)

// after lets a lane rest that was read.
func (r resting) after(lane batch.Lane, now time.Time) {
	r[lane.Service] = now.Add(time.Duration(len(lane.Batches)) * restPerBatch)
}

// left returns for how long a lane is to be left alone.
func (r resting) left(s batch.ServiceID, now time.Time) time.Duration {
	return max(0, r[s].Sub(now))
}

// sweep forgets those that have rested.
func (r resting) sweep(now time.Time) {
	for s, until := range r {
		if !until.After(now) {
			delete(r, s)
		}
	}
}
