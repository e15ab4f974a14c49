// Package lanes is the queuer's memory: one table that says when each lane is worth a look.
// Nothing depends on it. A scan finds a lane that the table forgets, and a look in vain costs a
// part of a claim.
package lanes

import (
	"time"
)

// request is who asks for a look at a lane.
type request int8

const (
	none  request = iota
	found         // a scan found the lane; most such lanes have no work for this process
	named         // somebody says that the lane may have work
)

// reason is why a lane rests.
type reason int8

const (
	out    reason = 1 + iota // a run of this process is out, and nothing of the lane leaves beside it
	read                     // a claim has just read a long window
	failed                   // the store failed over this lane alone
)

// entry is what is known of one lane.
type entry struct {
	request request
	at      time.Time // the request is for this time
	claimed bool      // a claim looks at the lane now
	reason  reason    // why the lane rests
	until   time.Time // the end of the rest
}

// due is the whole rule: it returns from when on the lane is worth a look, and the queue in
// which it stands. none means that it is not.
//
// A look needs a request: somebody named the lane, for now or for later, or a scan found it. One
// look answers all requests before it. A request during a claim waits for the end of the claim,
// which may have read the lane too early; a second claim would only wait for the same lock.
//
// A lane that rests is left alone until the end of its rest, whoever names it:
//   - out: nothing of the lane may leave, so a look would be in vain, and whoever frees the lane
//     would wait for it. Free ends this rest. Its own end counts where nobody calls Free, because
//     another process has freed the lane.
//   - read: each batch that becomes final or is added names the lane, and one look serves all.
//   - failed: the store needs a pause.
//
// The other waits are requests for later, which a request for an earlier time replaces: another
// instance had locked the lane, its next batch is not ready before, its ledger takes nothing now.
//
// Named lanes have a queue of their own, so that they do not wait for all that a scan finds. A
// lane that a scan finds while it rests stands there, too, at the end of its rest.
func (e entry) due() (at time.Time, in request) {
	switch {
	case e.claimed || e.request == none:
		return time.Time{}, none
	case e.until.After(e.at):
		return e.until, named
	}
	return e.at, e.request
}

// name asks for a look at a time; a time that is over means now. The earlier of two times counts.
func (e *entry) name(at, now time.Time) {
	if at.Before(now) {
		at = now
	}
	if e.request == none || e.request == found && at.Equal(now) || e.request == named && at.Before(e.at) {
		e.request, e.at = named, at
	}
}

// find asks for a look on behalf of a scan, if nobody has named the lane for now.
func (e *entry) find(now time.Time) {
	if e.request == none || e.request == named && e.at.After(now) {
		e.request, e.at = found, now
	}
}

// free ends the rest of a lane of which a run was out, and names the lane. Requests of that rest
// were for its end.
func (e *entry) free(at, now time.Time) {
	if e.reason == out {
		e.request, e.reason, e.until = none, 0, time.Time{}
	}
	e.name(at, now)
}

// idle reports whether the entry says nothing any more.
func (e entry) idle(now time.Time) bool {
	return e.request == none && !e.claimed && !e.until.After(now)
}
