// Package lanes is the queuer's memory: one table that says when each lane is due, which means
// worth a claim. No promise depends on it. A scan finds a lane that the table forgets, and a claim
// in vain is cheap.
package lanes

import (
	"time"
)

// request says who asks for a claim of a lane.
type request int8

const (
	requestNone  request = iota
	requestFound         // a scan found the lane; most such lanes have no work for this process
	requestNamed         // somebody says that the lane may have work
)

// entry is the memory of one lane.
type entry struct {
	request      request
	requestedFor time.Time // the request is for this time
	claimed      bool      // a claim looks at the lane now
	restUntil    time.Time // the end of the lane's rest
	runOut       bool      // a run was out, and nobody has freed the lane since
}

// due returns the whole rule: it returns from when on the lane is due, and the queue in
// which it stands. none means that it is not.
//
// A claim needs a request: somebody named the lane, for now or for later, or a scan found it. One
// look answers all requests before it. A request during a claim waits for the end of the claim,
// which may have read the lane too early; a second claim would only wait for the same lock.
//
// A lane that rests is left alone until the end of its rest, even if it is named meanwhile: see
// RunBegan, Rest and Failed. The other waits are requests for later, which a request for an
// earlier time replaces: another instance had locked the lane, its next batch is not ready before,
// its ledger takes nothing now.
//
// Named lanes have a queue of their own, so that they do not wait for all that a scan finds. A
// lane that a scan finds while it rests joins the named lanes at the end of its rest.
func (e entry) due() (at time.Time, in request) {
	switch {
	case e.claimed || e.request == requestNone:
		return time.Time{}, requestNone
	case e.restUntil.After(e.requestedFor):
		return e.restUntil, requestNamed
	}
	return e.requestedFor, e.request
}

// name asks for a claim at a time; a time that is over means now. The earlier of two times counts.
func (e *entry) name(at, now time.Time) {
	if at.Before(now) {
		at = now
	}
	if e.request == requestNone || e.request == requestFound && at.Equal(now) || e.request == requestNamed && at.Before(e.requestedFor) {
		e.request, e.requestedFor = requestNamed, at
	}
}

// find asks for a claim on behalf of a scan, if nobody has named the lane for now.
func (e *entry) find(now time.Time) {
	if e.request == requestNone || e.request == requestNamed && e.requestedFor.After(now) {
		e.request, e.requestedFor = requestFound, now
	}
}

// free names the lane. Where a run of the lane was out, it first ends the lane's rest and drops
// the request, which was for the end of that rest.
func (e *entry) free(at, now time.Time) {
	if e.runOut {
		e.request, e.runOut, e.restUntil = requestNone, false, time.Time{}
	}
	e.name(at, now)
}

// idle reports whether the entry says nothing any more.
func (e entry) idle(now time.Time) bool {
	return e.request == requestNone && !e.claimed && !e.restUntil.After(now)
}
