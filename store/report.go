package store

import (
	"slices"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Reported returns the report of the outcome's attempt that a store keeps. It returns false if the
// outcome has no report or was not applied just now: a repeated commit is not reported again.
func (o Outcome) Reported(a Applied, now time.Time) (batch.Report, bool) {
	if o.Report == nil || a.Result != Written || a.From == batch.Committed {
		return batch.Report{}, false
	}
	r := *o.Report
	r.At = now
	return r.Fit(), true
}

// KeepReport returns the reports of a batch, oldest first, with r appended. It keeps the first
// report and the newest others, at most [batch.MaxReports] in all. It does not change kept.
func KeepReport(kept []batch.Report, r batch.Report) []batch.Report {
	kept = append(slices.Clone(kept), r)
	if over := len(kept) - batch.MaxReports; over > 0 {
		kept = slices.Delete(kept, 1, 1+over)
	}
	return kept
}
