package events

import (
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// eventFlow sums up what this Runner sees of batches, until it is taken.
type eventFlow struct {
	mu        sync.Mutex
	startedAt time.Time
	sum       store.Flow // Ago and Took are not set
}

// add adds an event.
func (f *eventFlow) add(e batch.Event) {
	first := e.Kind == batch.EventClaimed && e.Attempt == 1
	final := e.Kind == batch.EventFinal || (e.Kind == batch.EventOrderBreach || e.Kind == batch.EventOperated) && isFinalEvent(e)
	if !first && !final && e.InRequest == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if first && e.SinceAdded > 0 {
		f.sum.Queue = f.sum.Queue.Plus(e.SinceAdded)
	}
	if e.InRequest > 0 {
		f.sum.Flight = f.sum.Flight.Plus(e.Took)
	}
	if final {
		f.sum.Final++
	}
	if final && e.SincePosted > 0 {
		f.sum.Finality = f.sum.Finality.Plus(e.SincePosted)
	}
}

// isFinalEvent reports whether an event other than EventFinal shows that its batch became final,
// in a case in which no EventFinal is reported.
func isFinalEvent(e batch.Event) bool {
	switch e.Act.Action {
	case "", batch.ActionDecide, batch.ActionCancel:
		return e.State == batch.Committed || e.State == batch.Rejected && e.Kind == batch.EventOperated
	}
	return false
}

// take returns the flow since it was last taken, and starts a new one. It returns false if that
// was less than a second ago: a shorter flow shows no rates.
func (f *eventFlow) take(now time.Time) (taken store.Flow, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if taken = f.sum; now.Sub(f.startedAt) < time.Second {
		return store.Flow{}, false
	}
	taken.Took = now.Sub(f.startedAt)
	f.startedAt, f.sum = now, store.Flow{}
	return taken, true
}
