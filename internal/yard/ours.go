package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/queuer"
)

// addGroup is the number of batches in one call, for every contender.
const addGroup = 500

// fakeLedgerClient is a client of the fake ledger, as a user would write it.
type fakeLedgerClient struct {
	dlt.Unimplemented

	*client
	w *work
}

// Traits implements dlt.Ledger. The fake ledger commits batches at once, and therefore in the
// order of acceptance.
func (*fakeLedgerClient) Traits(batch.ServiceID) dlt.Traits {
	return dlt.Traits{Name: "yard", ResendHarmlessFor: dlt.Forever, AddAgainHarmless: true, MaxIDsPerQuery: 100, KeepsOrder: true}
}

// Submit implements dlt.Submitter. It treats every error as a doubt.
func (f *fakeLedgerClient) Submit(ctx context.Context, a batch.Attempt) error {
	if m := f.w.momentsOf(a.ID); m != nil {
		m.posted = f.w.sinceBegin()
	}
	return f.post(ctx, a.Payload)
}

// BatchStatuses implements dlt.BatchStatusReader.
func (f *fakeLedgerClient) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
	ids := make([]string, len(attempts))
	for i, a := range attempts {
		ids[i] = string(a.ID)
	}
	answers, err := f.statuses(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]batch.Status, len(answers))
	for i, a := range answers {
		out[i].ID = batch.ID(a.ID)
		switch a.Status {
		case wordCommitted:
			out[i].Reported = batch.ReportedCommitted
		case wordUnknown:
			out[i].Reported = batch.ReportedUnknown
		default:
			return nil, &dlt.Error{Op: "batch statuses", Message: "unknown word " + batch.Excerpt(a.Status, 40)}
		}
	}
	return out, nil
}

// finalCounter counts final batches, and closes all when every batch is final.
type finalCounter struct {
	work         *work
	notFinal     atomic.Int64
	notCommitted atomic.Int64 // final batches that are not Committed
	allFinal     chan struct{}
}

func newFinalCounter(w *work, n int) *finalCounter {
	f := &finalCounter{work: w, allFinal: make(chan struct{})}
	f.notFinal.Store(int64(n))
	return f
}

// Observe implements batch.Observer.
func (f *finalCounter) Observe(_ context.Context, e batch.Event) {
	if e.Kind != batch.EventFinal {
		return
	}
	if e.State != batch.Committed {
		f.notCommitted.Add(1)
	}
	if m := f.work.momentsOf(e.Key.ID); m != nil {
		m.final = f.work.sinceBegin()
	}
	if f.notFinal.Add(-1) == 0 {
		close(f.allFinal)
	}
}

// runOurs delivers the work with the library, used as its users use it.
func runOurs(ctx context.Context, j job, w *work, m *meter, r *result) error {
	d, err := openDatabase(ctx, j)
	if err != nil {
		return err
	}
	defer d.close()
	done := newFinalCounter(w, j.Batches)
	c := newClient(j.Ledger, 1024)
	defer c.close()
	o := &dltbatch.Options{Observer: done}
	if j.Pipelined > 0 {
		o.Strategy = queuer.Pipelined(j.Pipelined)
	}
	if j.SteadyTime > 0 {
		o.Retention = heldRetention
	}
	st, shut, err := d.openStore(ctx, j.Waiting == 0)
	if err != nil {
		return err
	}
	defer shut()
	runner, err := dltbatch.New(st, &fakeLedgerClient{client: c, w: w}, o)
	if err != nil {
		return err
	}
	if err := d.settleTables(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if j.Waiting > 0 { // all batches are in the database, so the start belongs to the measured time
		if err := d.startMeasuring(ctx, m); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	if j.Waiting == 0 {
		if err := sleep(ctx, warmUpTime); err != nil {
			return err
		}
	}
	failed := make(chan error, 1)
	switch {
	case j.SteadyTime > 0:
		s := &steadyRun{database: d, work: w, job: j, notFinalCount: done.notFinal.Load, add: func(ctx context.Context, bs []batch.Batch) error { return runner.Add(ctx, bs...) }}
		go func() { failed <- s.run(ctx, m, r) }()
	case j.Adders > 0:
		if j.RestBetweenAdds == 0 { // the start of the processes that add does not belong to the measured time
			j.AddFrom = time.Now().Add(warmUpTime + time.Duration(j.Batches)*timePerBatch)
		}
		go func() { failed <- w.addInProcesses(ctx, j) }()
		if err := sleep(ctx, time.Until(j.AddFrom)); err != nil {
			return err
		}
		if err := d.startMeasuring(ctx, m); err != nil {
			return err
		}
	case j.Waiting == 0:
		if err := d.startMeasuring(ctx, m); err != nil {
			return err
		}
		go func() {
			if j.RestBetweenAdds > 0 {
				failed <- addOneByOne(ctx, j, w, runner)
			} else {
				failed <- w.addAll(ctx, runner.Add)
			}
		}()
	}
	for waiting := true; waiting; {
		select {
		case <-done.allFinal:
			waiting = false
		case err := <-failed:
			if failed = nil; err != nil {
				return err
			}
		case err := <-ended:
			return fmt.Errorf("run ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("%d batches are not final: %w", done.notFinal.Load(), ctx.Err())
		}
	}
	if failed != nil && j.Waiting == 0 { // the process that adds may end after the last batch
		if err := <-failed; err != nil {
			return err
		}
	}
	if j.SteadyTime == 0 {
		if err := d.stopMeasuring(ctx, m, r, j.Batches); err != nil {
			return err
		}
		r.RoundTrips += float64(w.otherRoundTrips) / float64(j.Batches)
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	if n := done.notCommitted.Load(); n > 0 {
		return fmt.Errorf("%d batches are final and not committed", n)
	}
	return nil
}

// warmUpTime is how long a contender runs idle before its work begins.
const warmUpTime = 300 * time.Millisecond

// timePerBatch is the time allowed for making a batch, in the processes that add and that are
// started together.
const timePerBatch = 100 * time.Microsecond

// runLoad adds batches that a later process delivers.
func runLoad(ctx context.Context, j job) error {
	d, err := openDatabase(ctx, j)
	if err != nil {
		return err
	}
	defer d.close()
	st, shut, err := d.openStore(ctx, true)
	if err != nil {
		return err
	}
	defer shut()
	const part = 100_000 // limits the memory of this process, too
	for from := 0; from < j.Waiting; from += part {
		w := newWork(j.Seed+uint64(from), min(part, j.Waiting-from), j.Lanes, payloadSize)
		for i := range w.batches { // continues the places where the last part ended
			binary.BigEndian.PutUint32(w.batches[i].Payload[idLen+4:], uint32((from+i)/j.Lanes))
		}
		if err := w.addAll(ctx, st.Add); err != nil {
			return err
		}
	}
	return d.settleTables(ctx)
}

// addAll adds all batches, in groups.
func (w *work) addAll(ctx context.Context, add func(context.Context, ...batch.Batch) error) error {
	return w.addGroups(ctx, w.batches, add)
}

// addGroups adds some batches of the work, in groups.
func (w *work) addGroups(ctx context.Context, batches []batch.Batch, add func(context.Context, ...batch.Batch) error) error {
	for group := range slices.Chunk(batches, addGroup) {
		now := w.sinceBegin()
		for _, b := range group {
			w.momentsOf(b.ID).added = now
		}
		if err := add(ctx, group...); err != nil {
			return err
		}
	}
	return nil
}
