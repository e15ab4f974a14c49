// Package lanes is the queuer's memory: a table of when each lane is due, which means worth a
// claim. No promise depends on the table. A scan finds a lane that the table has forgotten, and a
// claim that finds nothing is cheap.
package lanes

import (
	"time"
)

// request is the reason for a claim of a lane.
type request int8

const (
	requestNone  request = iota
	requestFound         // a scan found the lane; most such lanes have no work for this process
	requestNamed         // the lane was named, because it may have work
)

// entry is the memory of one lane.
type entry struct {
	request      request
	requestedFor time.Time // when the requested claim is to be made
	isClaimed    bool      // whether a claim looks at the lane now
	restUntil    time.Time // the end of the lane's rest
	runIsOut     bool      // whether a run was under way, and the lane was neither freed nor made to rest since
}

// due is the whole rule. It returns the time at which the lane is due and the queue in which it
// stands. none means that the lane is not due.
//
// A claim needs a request: the lane was named, for now or for later, or a scan found it. One claim
// answers all requests before it. A request during a claim waits for the end of the claim, which
// may have read the lane too early; a second claim would only wait for the same lock.
//
// A lane that rests is left alone until the end of its rest, even if it is named meanwhile: see
// RunBegan, Rest and Failed. The other reasons to wait are requests for a later time, which a
// request for an earlier time replaces: another instance had locked the lane, its next batch is
// not ready before that time, or its ledger takes nothing now.
//
// Named lanes have a queue of their own, so that they do not wait for all lanes that a scan finds.
// A lane that a scan finds while it rests joins the named lanes at the end of its rest.
func (e entry) due() (at time.Time, in request) {
	switch {
	case e.isClaimed || e.request == requestNone:
		return time.Time{}, requestNone
	case e.restUntil.After(e.requestedFor):
		return e.restUntil, requestNamed
	}
	return e.requestedFor, e.request
}

// setNamed requests a claim at a time; a past time means now. Of two times the earlier one counts.
func (e *entry) setNamed(at, now time.Time) {
	if at.Before(now) {
		at = now
	}
	if e.request == requestNone || e.request == requestFound && at.Equal(now) || e.request == requestNamed && at.Before(e.requestedFor) {
		e.request, e.requestedFor = requestNamed, at
	}
}

// setFound requests a claim for a scan, unless the lane was named for now.
func (e *entry) setFound(now time.Time) {
	if e.request == requestNone || e.request == requestNamed && e.requestedFor.After(now) {
		e.request, e.requestedFor = requestFound, now
	}
}

// setFree names the lane. If a run of the lane was under way, setFree first ends the lane's rest
// and removes the request, which was for the end of that rest.
func (e *entry) setFree(at, now time.Time) {
	if e.runIsOut {
		e.request, e.runIsOut, e.restUntil = requestNone, false, time.Time{}
	}
	e.setNamed(at, now)
}

// isIdle reports whether the entry is empty.
func (e entry) isIdle(now time.Time) bool {
	return e.request == requestNone && !e.isClaimed && !e.restUntil.After(now)
}
