package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/inhand"
	"github.com/dltbatch/dltbatch/internal/loop"
	"github.com/dltbatch/dltbatch/internal/recall"
	"github.com/dltbatch/dltbatch/store"
)

// postableRuns compares the runs of a claim with what this process knows of their batches, and
// returns the runs that may be posted. If this process has attempted a batch already, the batch is
// not posted as if it were new, whatever the database says.
func (a meteredStore) postableRuns(ctx context.Context, all []store.ClaimedRun) []store.ClaimedRun {
	now := time.Now()
	runs := all[:0]
	for _, run := range all {
		var forgotten map[batch.Key]*recall.Forgotten // nil almost always
		for _, c := range run.Batches {
			if f := a.recalled.Judge(c, now); f != nil {
				if forgotten == nil {
					forgotten = map[batch.Key]*recall.Forgotten{}
				}
				forgotten[c.Key] = f
			}
		}
		if len(forgotten) > 0 {
			a.takeForgotten(ctx, run, forgotten)
			continue
		}
		for _, c := range run.Batches {
			a.recalled.Claimed(c, now)
		}
		runs = append(runs, run)
	}
	clear(all[len(runs):])
	return runs
}

// noteSeen notes the rows that the store has shown, and fills in the bytes that the store has
// forgotten.
func (a meteredStore) noteSeen(rows []store.InFlight) {
	now := time.Now()
	for i := range rows {
		rows[i].Prepared = a.recalled.Prepared(rows[i].Key, rows[i].Prepared)
		a.recalled.Seen(rows[i], now)
	}
}

// noteKept notes bytes that the store has kept.
func (a meteredStore) noteKept(all []store.Prepared, kept []bool) {
	now := time.Now()
	for i, p := range all {
		if kept[i] {
			a.recalled.Kept(p, now)
		}
	}
}

// noteWritten notes outcomes that the store has written. Only the recorder knows of an outcome
// whose first answer was lost: the store's second answer is that the row has moved on.
func (r *run) noteWritten(group []inhand.Recorded) {
	now := time.Now()
	for i := range group {
		if w := &group[i]; w.Applied.Result == store.Written {
			r.recalled.Written(w.Outcome, w.Applied.Row, now)
		}
	}
}

// endForgotten ends the claims of a run in which the database has forgotten something. The batches
// concerned become doubts, and the monitor asks the ledger about them. The others are put back,
// because they may have to follow these.
func (r *run) endForgotten(ctx context.Context, run store.ClaimedRun, which map[batch.Key]*recall.Forgotten) {
	r.monitor.Follow(run.Service)
	r.table.Claimed(run)
	for _, c := range run.Batches {
		f := which[c.Key]
		if f == nil {
			r.submitter.Return([]store.Claim{c})
			continue
		}
		o := r.doubtAbout(ctx, c, f)
		r.events.Trouble("queuer", fmt.Errorf("batch %s: %w: %s", c.Key, batch.ErrForgotten, o.Error.Message))
		r.table.Answered(o)
	}
}

// doubtAbout returns the outcome of a claim of a batch whose attempt the database has forgotten.
// First it keeps the forgotten bytes again. If a client needs the bytes and this process does not
// know them any more, the batch is never sent again: other bytes might take effect a second time.
func (r *run) doubtAbout(ctx context.Context, c store.Claim, f *recall.Forgotten) store.Outcome {
	o := store.Outcome{
		Ref: c.Ref, Version: c.Version, Budget: c.Budget, By: batch.BySubmitter, Attempt: c.Attempt,
		Finding: store.Doubtful, ForgottenFor: f.Age, Refund: c.Budget.EveryTry, Check: r.options.FirstPoll,
		Error: &batch.SubmissionError{Kind: batch.KindDoubt, Message: forgottenText(c, f)},
	}
	lost := f.OtherBytes || f.Prepared == nil && len(c.Prepared) == 0 && r.ledger.Traits(c.Key.Service).Prepares
	if f.Prepared != nil {
		lost = !r.keepAgain(ctx, store.Prepared{Ref: c.Ref, Version: c.Version, Was: c.Prepared, Bytes: f.Prepared})
	}
	if lost {
		o.Last, o.Error.Kind = true, batch.KindGivenUp
		o.Error.Message += "; the bytes that were sent are not known any more"
	}
	o.Report = &batch.Report{Attempt: c.Attempt, Kind: o.Error.Kind, Text: o.Error.Message}
	return o
}

// keepAgain keeps bytes that the store has forgotten. It repeats the write after a failure while
// the claim is live, also after a stop. kept is false if the row has moved on, or if the store has
// not answered in that time.
func (r *run) keepAgain(ctx context.Context, p store.Prepared) (kept bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.options.ClaimTTL)
	defer cancel()
	err := loop.Retry(ctx, r.trouble("queuer"), func() (err error) {
		kept, err = r.keeper.Keep(ctx, p)
		return err
	})
	return kept && err == nil
}

func forgottenText(c store.Claim, f *recall.Forgotten) string {
	was := "attempted"
	if f.Final {
		was = "final"
	}
	return fmt.Sprintf("it was claimed as attempt %d, and this process knows it as %s in attempt %d, since %s", c.Attempt, was, f.Attempt, f.Age.Round(time.Second))
}
