package engine

import (
	"sync/atomic"
	"time"
)

// stopCounts counts the claims and outcomes that a stop of a Run leaves behind. The parts use it
// concurrently.
type stopCounts struct {
	since     time.Time // set by begin
	stopBegan atomic.Bool
	putBack   atomic.Int64 // claims
	lost      atomic.Int64 // outcomes that could not be written
}

// begin says that the stop begins; nothing before it is counted.
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
