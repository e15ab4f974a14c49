package engine

import (
	"sync/atomic"
	"time"
)

// ending counts the claims and outcomes that a stop of a Run leaves behind. The parts use it
// concurrently.
type ending struct {
	since   time.Time // set by begin
	begun   atomic.Bool
	putBack atomic.Int64 // claims
	lost    atomic.Int64 // outcomes that could not be written
}

// begin says that the stop begins; nothing before it is counted.
func (e *ending) begin() {
	e.since = time.Now()
	e.begun.Store(true)
}

func (e *ending) putBackClaim() {
	if e.begun.Load() {
		e.putBack.Add(1)
	}
}

func (e *ending) lostOutcomes(n int) {
	if e.begun.Load() {
		e.lost.Add(int64(n))
	}
}
