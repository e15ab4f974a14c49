package main

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
)

// lateWarmUpBatches is how many of the batches that are added one by one do not count, because
// connections, statements and lanes are then new.
const lateWarmUpBatches = 20

// setLateFigures sets the figures of batches that were added one by one to an idle queue.
func (r *result) setLateFigures(w *work) {
	added := func(m moments) int64 { return m.added }
	stored := func(m moments) int64 { return m.stored }
	posted := func(m moments) int64 { return m.posted }
	add := w.between(added, stored)
	hand := w.between(stored, posted)
	post := w.between(added, posted)
	answer := w.between(added, func(m moments) int64 { return m.answered })
	r.Add50 = milliseconds(percentile(add, 50))
	r.HandOver50, r.HandOver99 = milliseconds(percentile(hand, 50)), milliseconds(percentile(hand, 99))
	r.Post50, r.Post90, r.Post99, r.PostMax = milliseconds(percentile(post, 50)), milliseconds(percentile(post, 90)), milliseconds(percentile(post, 99)), milliseconds(percentile(post, 100))
	r.Answer50, r.Answer90, r.Answer99, r.AnswerMax = milliseconds(percentile(answer, 50)), milliseconds(percentile(answer, 90)), milliseconds(percentile(answer, 99)), milliseconds(percentile(answer, 100))
}

// addOneByOne adds each batch to an idle queue, waits for its end, and rests.
func addOneByOne(ctx context.Context, j job, w *work, r *dltbatch.Runner) error {
	for b := range w.batchesOf(j) {
		m := w.momentsOf(b.ID)
		m.added = w.sinceBegin()
		if err := r.Add(ctx, b); err != nil {
			return err
		}
		m.stored = w.sinceBegin()
		if _, err := r.Await(ctx, b.Key()); err != nil {
			return err
		}
		m.answered = w.sinceBegin()
		if err := sleepAround(ctx, j.RestBetweenAdds); err != nil {
			return err
		}
	}
	return nil
}

// sleepAround waits for d, or up to half of it less or more, so that batches are not synchronized
// with any interval.
func sleepAround(ctx context.Context, d time.Duration) error {
	return sleep(ctx, d/2+rand.N(d))
}

// sleep waits for d, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// batchTimes are the times of a batch that only the process knows that adds it.
type batchTimes struct{ Added, Stored, Answered int64 }

// addReport holds the times of each batch, and the number of round trips to PostgreSQL of the
// process that adds.
type addReport struct {
	Batches []batchTimes
	Trips   int64
}

// batchesOf yields the batches that this process adds: all batches of a lane belong to one
// process.
func (w *work) batchesOf(j job) iter.Seq[batch.Batch] {
	return func(yield func(batch.Batch) bool) {
		for i, b := range w.batches {
			if i%w.lanes%max(1, j.Adders) == j.AdderIndex && !yield(b) {
				return
			}
		}
	}
}

// addOwnPart adds this process' batches as fast as it can, and counts its round trips.
func (w *work) addOwnPart(ctx context.Context, j job, r *dltbatch.Runner, count *tripCounter) error {
	batches := slices.Collect(w.batchesOf(j))
	if _, err := r.Stats(ctx); err != nil { // opens a connection before the measurement
		return err
	}
	if err := sleep(ctx, time.Until(j.AddFrom)); err != nil {
		return err
	}
	count.trips.Store(0)
	return w.addGroups(ctx, batches, r.Add)
}

// addInProcesses lets other processes add the batches, and collects the times that they report.
func (w *work) addInProcesses(ctx context.Context, j job) error {
	parts := make([]addReport, j.Adders)
	g, ctx := errgroup.WithContext(ctx)
	for i := range parts {
		j := j
		j.AdderIndex = i
		g.Go(func() error {
			if err := runInProcess(ctx, roleAdder, j, &parts[i]); err != nil {
				return fmt.Errorf("process %d that adds: %w", i, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, a := range parts {
		if len(a.Batches) != len(w.momentsByBatch) {
			return fmt.Errorf("process %d that adds tells of %d batches, want %d", i, len(a.Batches), len(w.momentsByBatch))
		}
		w.otherRoundTrips += a.Trips
		for k, t := range a.Batches {
			if t.Added > 0 {
				m := &w.momentsByBatch[k]
				m.added, m.stored, m.answered = t.Added, t.Stored, t.Answered
			}
		}
	}
	return nil
}

// runAdder runs the process that adds, and returns the times of each batch.
func (j job) runAdder(ctx context.Context) (a addReport, err error) {
	w := newWork(j.Seed, j.Batches, j.Lanes, payloadSize)
	w.beganAt = j.ClockZero
	d := &database{job: j, wire: &tripCounter{}}
	if j.Contender == contenderRiver {
		if err := riverOneByOne(ctx, j, w); err != nil {
			return a, err
		}
	} else {
		st, shut, err := d.openStore(ctx, false)
		if err != nil {
			return a, err
		}
		defer shut()
		r, err := dltbatch.New(st, &fakeLedgerClient{w: w}, nil) // this Runner only adds
		if err != nil {
			return a, err
		}
		if j.RestBetweenAdds > 0 {
			err = addOneByOne(ctx, j, w, r)
		} else {
			err = w.addOwnPart(ctx, j, r, d.wire)
		}
		if err != nil {
			return a, err
		}
	}
	a = addReport{make([]batchTimes, len(w.momentsByBatch)), d.wire.trips.Load()}
	for i, m := range w.momentsByBatch {
		a.Batches[i] = batchTimes{m.added, m.stored, m.answered}
	}
	return a, nil
}
