package main

import (
	"fmt"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

// board counts the workers' notes. It is only for show: it misses the notes that a worker
// could not write before it was killed, and the proof does not use it.
type board struct {
	mu      sync.Mutex
	workers []tally
	held    map[batch.ID]hold
	orphans map[batch.ID]bool // held by a worker that was killed
	final   map[batch.ID]bool // a batch counts for its first reporter: all may hear of it
	notices []string
}

// hold is the worker that has a batch, from its claim to its outcome.
type hold struct {
	worker   int
	accepted bool // the worker has reported it
}

// tally counts for one worker, through all its lives.
type tally struct {
	pid                                     int
	alive                                   bool
	deaths                                  int
	claimed, accepted, committed, takeovers int
}

func newBoard(c config) *board {
	return &board{workers: make([]tally, c.workers), held: map[batch.ID]hold{}, orphans: map[batch.ID]bool{}, final: map[batch.ID]bool{}}
}

// hear records a note of worker i.
func (b *board) hear(i int, n note) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &b.workers[i]
	switch n.Kind {
	case batch.EventClaimed, batch.EventState, batch.EventInDoubt, batch.EventFinal:
		if b.orphans[n.ID] { // the first to continue a dead worker's batch
			delete(b.orphans, n.ID)
			w.takeovers++
			b.held[n.ID] = hold{i, b.held[n.ID].accepted}
		}
	case batch.EventDecision, batch.EventOrderBreach, batch.EventTrouble, batch.EventLaneHeld, batch.EventPaused:
		b.notices = append(b.notices, fmt.Sprintf("worker %d says %s %s", i+1, n.Kind, n.Error))
	}
	switch {
	case n.Kind == batch.EventClaimed:
		w.claimed++
		b.held[n.ID] = hold{worker: i}
	case n.Kind == batch.EventState && n.State == batch.Pending:
		w.accepted++
		b.held[n.ID] = hold{i, true}
	case n.Kind == batch.EventFinal:
		delete(b.held, n.ID)
		if b.final[n.ID] {
			return
		}
		b.final[n.ID] = true
		if n.State == batch.Committed {
			w.committed++
		} else {
			b.notices = append(b.notices, fmt.Sprintf("worker %d says %s is %s: %s", i+1, n.ID[:12], n.State, n.Error))
		}
	}
}

func (b *board) started(i, pid int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.workers[i].pid, b.workers[i].alive = pid, true
}

// killed makes orphans of all batches of the worker. It returns their number, and how many of
// them the worker had not reported as accepted.
func (b *board) killed(i int) (orphans, open int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.workers[i].alive = false
	b.workers[i].deaths++
	for id, h := range b.held {
		if h.worker == i && !b.orphans[id] {
			b.orphans[id] = true
			orphans++
			if !h.accepted {
				open++
			}
		}
	}
	return orphans, open
}

// victim returns the living worker whose death hurts most, or -1. When a worker dies its
// requests on the way to the node are in doubt; its other batches only need a new worker. No
// worker dies a second time before all others have died once.
func (b *board) victim() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	hurts := make([]int, len(b.workers))
	for _, h := range b.held {
		hurts[h.worker]++
		if !h.accepted {
			hurts[h.worker] += 10
		}
	}
	best := -1
	for i, w := range b.workers {
		if !w.alive || hurts[i] == 0 {
			continue
		}
		if best < 0 || w.deaths < b.workers[best].deaths || (w.deaths == b.workers[best].deaths && hurts[i] > hurts[best]) {
			best = i
		}
	}
	return best
}

// look returns the tallies, and the notices since the last look.
func (b *board) look() (workers []tally, notices []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	notices, b.notices = b.notices, nil
	return append(workers, b.workers...), notices
}
