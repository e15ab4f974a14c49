package queuer

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// resting is until when lanes are left alone after a claim has read their window: the more it
// read, the longer. Each batch of a lane that is final, is added, or is cut off by a limit
// gives a hint, and one look serves them all. A lane that no claim has read for a while is
// looked at at once.
type resting map[batch.ServiceID]time.Time

// restPerBatch makes a lane of a thousand open batches be read a hundred times a second at
// most. A lane that shows fewer than restFrom batches does not rest.
const (
	restPerBatch = 10 * time.Microsecond
	restFrom     = 100 // batches
)

// after lets a lane rest that was just read.
func (r resting) after(lane batch.Lane, now time.Time) {
	r[lane.Service] = now.Add(time.Duration(len(lane.Batches)) * restPerBatch)
}

// left returns for how long a lane is still left alone.
func (r resting) left(s batch.ServiceID, now time.Time) time.Duration {
	return max(0, r[s].Sub(now))
}

// sweep forgets lanes that have rested.
func (r resting) sweep(now time.Time) {
	for s, until := range r {
		if !until.After(now) {
			delete(r, s)
		}
	}
}
