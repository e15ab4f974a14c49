package engine

import (
	"sync/atomic"
	"time"
)

// stopCounts counts the claims and outcomes that the stop of a Run leaves behind. The parts of the
// Run use it concurrently.
type stopCounts struct {
	since     time.Time // time of begin
	stopBegan atomic.Bool
	putBack   atomic.Int64 // number of claims put back
	lost      atomic.Int64 // outcomes that could not be written
}

// begin marks the beginning of the stop. What happened before is not counted.
func (e *stopCounts) begin() {
	e.since = time.Now()
	e.stopBegan.Store(true)
}

func (e *stopCounts) putBackClaim() {
	if e.stopBegan.Load() {
		e.putBack.Add(1)
	}
}

func (e *stopCounts) lostOutcomes(n int) {
	if e.stopBegan.Load() {
		e.lost.Add(int64(n))
	}
}
