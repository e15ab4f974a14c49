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

// laneJudge explains the batches of one lane.
type laneJudge struct {
	view  *surveyView
	rules claimRules
	rows  []store.LaneRow
	lane  []store.LaneRow // the rows that claims read, in the order of claims
	look  store.Look
}

// explainRow explains the batch of one row.
func (j *laneJudge) explainRow(r *store.LaneRow) (batch.Explanation, error) {
	l := j.look
	l.Ref, l.Row, l.Budget, l.Footprint = r.Ref, r.Row, r.Budget, r.Footprint
	return j.rules.judge(l)
}

// item explains the batch of one row, and the batch that blocks it.
func (j *laneJudge) item(r *store.LaneRow) laneItem {
	it := laneItem{id: r.Key.ID, count: 1, created: r.Created}
	var err error
	if it.explanation, err = j.explainRow(r); err != nil {
		it.Reason = j.rules.unknownReason
		it.explanation = batch.Explanation{Key: r.Key, Version: r.Row.Version, State: r.Row.State, Cause: CauseUnknown}
		return it
	}
	it.Reason = Reason{Cause: it.explanation.Cause, Remedy: it.explanation.Remedy, State: r.Row.State, Kind: kindOf(r.Row.Error), Called: hasUnendingCall(r, it.explanation)}
	switch it.explanation.Remedy {
	case batch.RemedyBlocker:
		j.setBlocker(&it, it.explanation.Blocker)
	case batch.RemedyRelease:
		f := j.view.finalStates[it.explanation.Blocker] // the zero value if the batch is no longer final
		it.State, it.Kind, it.Called = f.state, f.kind, false
	}
	return it
}

// hasUnendingCall reports whether a person was called about a batch whose doubt no ruling can end.
func hasUnendingCall(r *store.LaneRow, e batch.Explanation) bool {
	return r.Row.Called() && e.Cause != batch.CauseDecision
}

// itemOfRest returns an item for n batches behind the front of their lane, which the survey did
// not read.
func (j *laneJudge) itemOfRest(created time.Time, n int) laneItem {
	it := laneItem{count: n, created: created, Reason: Reason{Cause: batch.CauseBehind, Remedy: batch.RemedyBlocker}}
	if j.rules.chooseErr != nil {
		it.Reason = j.rules.unknownReason
		return it
	}
	j.setBlocker(&it, explain.First(j.lane))
	return it
}

// setBlocker fills in the reason of a batch that others block. It follows the chain of blocking
// batches to its end.
func (j *laneJudge) setBlocker(it *laneItem, by batch.Key) {
	for range j.rows { // each batch waits for an earlier one
		i := slices.IndexFunc(j.rows, func(r store.LaneRow) bool { return r.Key == by })
		if i < 0 {
			return
		}
		r := &j.rows[i]
		e, err := j.explainRow(r)
		it.State, it.Kind, it.Called, it.Root, it.blocker = r.Row.State, kindOf(r.Row.Error), hasUnendingCall(r, e), e.Cause, e
		if err != nil {
			it.Reason = j.rules.unknownReason
			return
		}
		if e.Remedy != batch.RemedyBlocker {
			return
		}
		by = e.Blocker
	}
}

// unknownReason returns the reason of batches that cannot be explained because settings are not on
// record.
func unknownReason(err error) Reason {
	r := Reason{Cause: CauseUnknown, Why: err.Error(), Missing: MissingRecord}
	if s, is := errors.AsType[*SettingsError](err); is { // the same for all services of the ledger
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
