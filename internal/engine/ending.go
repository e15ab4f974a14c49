package engine

import (
	"sync/atomic"
	"time"
)

// stopCounts counts the claims and outcomes that the stop of a Run leaves behind. The parts of the
// Run use it concurrently.
type stopCounts struct {
	startedAt     time.Time // time of begin
	stopBegan     atomic.Bool
	claimsPutBack atomic.Int64 // number of claims put back
	lostWrites    atomic.Int64 // outcomes that could not be written
}

// noteStart marks the beginning of the stop. What happened before is not counted.
func (e *stopCounts) noteStart() {
	e.startedAt = time.Now()
	e.stopBegan.Store(true)
}

func (e *stopCounts) addClaimPutBack() {
	if e.stopBegan.Load() {
		e.claimsPutBack.Add(1)
	}
}

func (e *stopCounts) addLostWrites(n int) {
	if e.stopBegan.Load() {
		e.lostWrites.Add(int64(n))
	}
}
