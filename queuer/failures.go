package queuer

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/loop"
)

// failures are the errors of a claim and its parts.
type failures struct {
	err     error             // the last error
	alone   []batch.ServiceID // lanes that wait, each on its own
	untried []batch.ServiceID // lanes that were not tried
	strikes int               // claims of one lane that failed in a row
}

// maxStrikes is the number of lanes that fail alone, in a row, from which on the store is at
// fault and not the lanes.
const maxStrikes = 3

// claimParts claims from lanes together and, where that fails, from their halves, until a lane
// that the store cannot read is alone and keeps only itself waiting. It returns how many runs
// were taken, and subtracts their batches from room.
func (q *Queuer) claimParts(ctx context.Context, lanes []batch.ServiceID, room *int, f *failures) (runs int) {
	if f.strikes >= maxStrikes || *room <= 0 {
		f.untried = append(f.untried, lanes...)
		return 0
	}
	err := loop.Contain(func() error {
		took, err := q.claim(ctx, lanes, *room)
		if err != nil {
			return err
		}
		runs = len(took)
		for _, r := range took {
			*room -= len(r.Batches)
		}
		return nil
	})
	if err == nil {
		f.strikes = 0
		return runs
	}
	f.err = err
	if len(lanes) > 1 && !errors.Is(err, errPayloads) {
		half := len(lanes) / 2
		return q.claimParts(ctx, lanes[:half], room, f) + q.claimParts(ctx, lanes[half:], room, f)
	}
	f.strikes++
	f.alone = append(f.alone, lanes...)
	return 0
}

// pauses holds the pauses after failures of the store: for the store, and for single lanes.
type pauses struct {
	all   pause // the store itself fails
	lanes map[batch.ServiceID]*pause
}

// pause is how long to wait after failures in a row.
type pause struct {
	until time.Time
	next  *backoff.ExponentialBackOff
}

func newPauses() pauses {
	return pauses{all: pause{next: loop.Brief()}, lanes: map[batch.ServiceID]*pause{}}
}

// left returns for how long a lane is still left alone.
func (p *pauses) left(s batch.ServiceID, now time.Time) time.Duration {
	if l := p.lanes[s]; l != nil {
		return max(0, l.until.Sub(now))
	}
	return 0
}

// heldFrom is the pause from which on a lane's failures are reported as the lane's own: a
// store that fails only now and then recovers before.
const heldFrom = time.Second

// learn records how a claim from lanes went: a lane that failed waits, longer each time; a
// success ends that.
func (q *Queuer) learn(lanes []batch.ServiceID, f failures) {
	now := time.Now()
	if f.err != nil {
		q.o.Trouble(f.err)
	}
	failed := map[batch.ServiceID]bool{}
	for _, s := range f.untried {
		failed[s] = true
	}
	for _, s := range f.alone {
		failed[s] = true
		l := q.pauses.lanes[s]
		if l == nil {
			l = &pause{next: loop.Brief()}
			q.pauses.lanes[s] = l
		}
		wait := l.next.NextBackOff()
		l.until = now.Add(wait)
		q.hintAll([]batch.ServiceID{s}, wait)
		if wait >= heldFrom {
			q.o.Held(s, f.err)
		}
	}
	if f.strikes >= maxStrikes {
		q.pauses.all.until = now.Add(q.pauses.all.next.NextBackOff())
	} else {
		q.pauses.all.next.Reset()
	}
	q.hintAll(f.untried, 0)
	for _, s := range lanes {
		if !failed[s] {
			delete(q.pauses.lanes, s)
		}
	}
}
