package operator

import (
	"fmt"
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/explain"
	"github.com/dltbatch/dltbatch/store"
)

// unservedLanes returns the lanes whose batches no live instance takes, by the rows of the
// instances, each with the reason. It leaves out a lane that one of the instances has not met yet.
func unservedLanes(instances []store.Instance) map[batch.ServiceID]string {
	type refusal struct {
		by    []string // names of instances
		since time.Time
		why   string
	}
	live, all := 0, map[batch.ServiceID]refusal{}
	for _, i := range instances {
		if !i.Live {
			continue
		}
		live++
		for _, u := range i.Unserved {
			r := all[u.Service]
			since := i.Seen.Add(-u.For)
			if r.by = append(r.by, i.Name); len(r.by) == 1 || since.Before(r.since) {
				r.since, r.why = since, u.Why
			}
			all[u.Service] = r
		}
	}
	lanes := map[batch.ServiceID]string{}
	for lane, r := range all {
		who := fmt.Sprintf("instance %s has not served", r.by[0])
		if live > 1 {
			who = fmt.Sprintf("none of %d instances has served", live)
		}
		if len(r.by) == live {
			lanes[lane] = fmt.Sprintf("%s it since %s: %s", who, r.since.UTC().Format("2006-01-02 15:04:05Z"), r.why)
		}
	}
	return lanes
}

// isUnserved reports whether it matters for a batch with this cause that no instance serves its
// lane. It does not matter for a claimed batch, whose attempt is under way.
func isUnserved(c batch.Cause) bool { return movesItself(c) && c != batch.CauseClaimed }

// withUnserved returns the explanation of a batch whose lane no instance serves.
func withUnserved(e batch.Explanation, why string) batch.Explanation {
	e.Owner, e.Cause, e.Remedy, e.Decision, e.Blocker = batch.ByOperator, batch.CauseUnserved, batch.RemedyLedger, why, batch.Key{}
	e.Text = explain.Sentence(e)
	return e
}

// unservedItems returns the items of a lane that no instance serves.
func unservedItems(items []laneItem, why string) []laneItem {
	items = slices.Clone(items) // lanes of one shape share the slice
	for i := range items {
		it := &items[i]
		if isUnserved(it.Cause) && (it.Root == "" || isUnserved(it.Root)) {
			it.Reason, it.blocker = Reason{Cause: batch.CauseUnserved, Remedy: batch.RemedyLedger}, batch.Explanation{}
			if it.id != "" {
				it.explanation = withUnserved(it.explanation, why)
			}
		}
	}
	return items
}
