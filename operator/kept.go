package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/store"
)

// Limits of the report of causes that a store keeps for all processes.
const (
	minKeptSurvey = 200 * time.Millisecond // a survey that took less is not kept, since a new one is as cheap
	keptFreshFor  = time.Second            // for this long no process makes another survey
)

// keptSurvey is the text of a kept report.
type keptSurvey struct {
	Took   time.Duration `json:"took_ns"`
	Causes Causes        `json:"causes"`
}

// Causes groups all open batches by the reason why they wait. A batch that waits behind others is
// counted under that reason, even if it also has to wait for a time of its own. The cost grows
// with the lanes that have open batches, with the batches in flight in them, and with the waiting
// batches, at most 1,000 a lane. The lanes are not read at the same moment. It needs a store with
// [store.CanSurvey].
//
// A survey that took more than 0.2 s is kept in a store with [store.CanKeepTexts]. With q.Kept all
// processes read the kept survey for fifty times as long as it took, while one process at a time
// makes another (docs/design.md#counting-what-is-open).
func (d *Desk) Causes(ctx context.Context, q CausesQuery) (Causes, error) {
	return d.causes(ctx, q, nil)
}

// causes is Causes with the lanes that no instance serves, which the caller has read; unserved is
// nil if nobody has read them.
func (d *Desk) causes(ctx context.Context, q CausesQuery, unserved map[batch.ServiceID]string) (Causes, error) {
	if q.Within <= 0 {
		q.Within = defaultTimeLimit
	}
	// If the caller's role may not read or write kept reports, Causes makes its own survey and
	// returns no error.
	report, err := texts.ReadReport(ctx, d.store, store.TextCauses)
	keeps := err == nil
	kept, is := keptSurveyOf(report)
	if is && q.Kept {
		if !report.Due(report.Now, store.RefreshQuery{OlderThan: keptFreshFor}) {
			return kept.causesAsOf(report.Now), nil
		}
		report.StatsTurn = report.Take(report.Now)
		mine, err := report.Keep(ctx, d.store)
		if err == nil && !mine { // another process is making a survey
			return kept.causesAsOf(report.Now), nil
		}
		keeps = err == nil
	}
	begin := time.Now()
	c, err := d.surveyCauses(ctx, q, unserved)
	if err != nil {
		return Causes{}, fmt.Errorf("causes: %w", err)
	}
	if took := time.Since(begin); keeps && (is || took >= minKeptSurvey) {
		d.keepSurvey(ctx, keptSurvey{took, c}, report)
	}
	return c, nil
}

// keepSurvey stores a survey for other processes, unless one of them has begun another survey
// since.
func (d *Desk) keepSurvey(ctx context.Context, k keptSurvey, report texts.Report) {
	text, err := json.Marshal(k)
	if err != nil {
		return
	}
	report.StatsTurn, report.Detail = report.End(report.Now.Add(k.Took), k.Causes.At, k.Took), text
	_, _ = report.Keep(ctx, d.store)
}

// keptSurveyOf reads a kept survey. The result is false for a text of another version, for a
// survey that took little time, and for a survey from before the database's clock stepped back,
// whose age is not known.
func keptSurveyOf(r texts.Report) (kept keptSurvey, is bool) {
	is = r.Detail != nil && json.Unmarshal(r.Detail, &kept) == nil && kept.Took >= minKeptSurvey && !kept.Causes.At.After(r.Now)
	return kept, is
}

// causesAsOf returns the survey with its age at the time now on the database's clock. The age is
// never negative.
func (k keptSurvey) causesAsOf(now time.Time) Causes {
	c := k.Causes
	c.Age = now.Sub(c.At)
	return c
}
