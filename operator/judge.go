package operator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/explain"
	"github.com/dltbatch/dltbatch/store"
)

// judge judges the batches of one lane.
type judge struct {
	v    *view
	u    rules
	rows []store.LaneRow
	lane []store.LaneRow // as many as claims look at, in their order
	look store.Look
}

// explainRow explains one row.
func (j *judge) explainRow(r *store.LaneRow) (batch.Explanation, error) {
	l := j.look
	l.Ref, l.Row, l.Budget, l.Footprint = r.Ref, r.Row, r.Budget, r.Footprint
	return j.u.judge(l)
}

// item explains one row, and the batch in its way.
func (j *judge) item(r *store.LaneRow) item {
	it := item{id: r.Key.ID, n: 1, created: r.Created}
	var err error
	if it.e, err = j.explainRow(r); err != nil {
		it.Reason = j.u.unknown
		it.e = batch.Explanation{Key: r.Key, Version: r.Row.Version, State: r.Row.State, Cause: CauseUnknown}
		return it
	}
	it.Reason = Reason{Cause: it.e.Cause, Remedy: it.e.Remedy, State: r.Row.State, Kind: kindOf(r.Row.Error), Called: called(r, it.e)}
	switch it.e.Remedy {
	case batch.RemedyBlocker:
		j.blocked(&it, it.e.Blocker)
	case batch.RemedyRelease:
		f := j.v.final[it.e.Blocker] // the zero value where it is not final any more
		it.State, it.Kind, it.Called = f.state, f.kind, false
	}
	return it
}

// called reports whether a person was called about a batch that no ruling ends.
func called(r *store.LaneRow, e batch.Explanation) bool {
	return r.Row.Called() && e.Cause != batch.CauseDecision
}

// behind is for batches that wait behind the front of their lane: nobody looked at them.
func (j *judge) behind(created time.Time, n int) item {
	it := item{n: n, created: created, Reason: Reason{Cause: batch.CauseBehind, Remedy: batch.RemedyBlocker}}
	if j.u.choice != nil {
		it.Reason = j.u.unknown
		return it
	}
	j.blocked(&it, explain.First(j.lane))
	return it
}

// blocked fills in the reason of a batch that others block, from its blocker to the end of the
// row.
func (j *judge) blocked(it *item, by batch.Key) {
	for range j.rows { // each batch waits for an earlier one
		i := slices.IndexFunc(j.rows, func(r store.LaneRow) bool { return r.Key == by })
		if i < 0 {
			return
		}
		r := &j.rows[i]
		e, err := j.explainRow(r)
		it.State, it.Kind, it.Called, it.Root, it.blocker = r.Row.State, kindOf(r.Row.Error), called(r, e), e.Cause, e
		if err != nil {
			it.Reason = j.u.unknown
			return
		}
		if e.Remedy != batch.RemedyBlocker {
			return
		}
		by = e.Blocker
	}
}

// unknownReason returns the reason of batches about which too little is on record.
func unknownReason(err error) Reason {
	r := Reason{Cause: CauseUnknown, Why: err.Error(), Missing: MissingRecord}
	if s, is := errors.AsType[*SettingsError](err); is { // of all services of the ledger alike
		switch {
		case errors.Is(s.Err, ErrDisagree):
			r.Missing = MissingAgreement
		case s.Ledger == "":
			r.Missing = MissingLedger
		}
		r.Why = fmt.Sprintf("%v: %s of ledger %q: %s", s.Err, s.Setting, batch.Excerpt(s.Ledger, 64), s.Why)
	}
	return r
}
