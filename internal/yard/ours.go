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
	if m := f.w.moment(a.ID); m != nil {
		m.posted = f.w.now()
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
	w            *work
	notFinal     atomic.Int64
	notCommitted atomic.Int64 // final batches that are not Committed
	all          chan struct{}
}

func newFinals(w *work, n int) *finalCounter {
	f := &finalCounter{w: w, all: make(chan struct{})}
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
	if m := f.w.moment(e.Key.ID); m != nil {
		m.final = f.w.now()
	}
	if f.notFinal.Add(-1) == 0 {
		close(f.all)
	}
}

// runOurs uses the library as its users do.
func runOurs(ctx context.Context, j job, w *work, m *meter, r *result) error {
	d, err := openDatabase(ctx, j)
	if err != nil {
		return err
	}
	defer d.close()
	done := newFinals(w, j.N)
	c := newClient(j.Ledger, 1024)
	defer c.close()
	o := &dltbatch.Options{Observer: done}
	if j.Pipelined > 0 {
		o.Strategy = queuer.Pipelined(j.Pipelined)
	}
	if j.Hold > 0 {
		o.Retention = heldRetention
	}
	st, shut, err := d.store(ctx, j.Waiting == 0)
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
		if err := d.start(ctx, m); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	if j.Waiting == 0 {
		if err := sleep(ctx, warmUp); err != nil {
			return err
		}
	}
	failed := make(chan error, 1)
	switch {
	case j.Hold > 0:
		s := &steadyRun{database: d, w: w, j: j, left: done.notFinal.Load, add: func(ctx context.Context, bs []batch.Batch) error { return runner.Add(ctx, bs...) }}
		go func() { failed <- s.run(ctx, m, r) }()
	case j.Adders > 0:
		if j.Rest == 0 { // the start of these processes does not belong to the measured time
			j.Begin = time.Now().Add(warmUp + time.Duration(j.N)*timePerBatch)
		}
		go func() { failed <- w.addInProcesses(ctx, j) }()
		if err := sleep(ctx, time.Until(j.Begin)); err != nil {
			return err
		}
		if err := d.start(ctx, m); err != nil {
			return err
		}
	case j.Waiting == 0:
		if err := d.start(ctx, m); err != nil {
			return err
		}
		go func() {
			if j.Rest > 0 {
				failed <- oneByOne(ctx, j, w, runner)
			} else {
				failed <- w.add(ctx, runner.Add)
			}
		}()
	}
	for waiting := true; waiting; {
		select {
		case <-done.all:
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
	if j.Hold == 0 {
		if err := d.stop(ctx, m, r, j.N); err != nil {
			return err
		}
		r.Trips += float64(w.trips) / float64(j.N)
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

// warmUp is how long a contender runs idle before its work begins.
const warmUp = 300 * time.Millisecond

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
	st, shut, err := d.store(ctx, true)
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
		if err := w.add(ctx, st.Add); err != nil {
			return err
		}
	}
	return d.settleTables(ctx)
}

// add adds all batches, in groups.
func (w *work) add(ctx context.Context, add func(context.Context, ...batch.Batch) error) error {
	return w.addThese(ctx, w.batches, add)
}

// addThese adds some batches of the work, in groups.
func (w *work) addThese(ctx context.Context, batches []batch.Batch, add func(context.Context, ...batch.Batch) error) error {
	for group := range slices.Chunk(batches, addGroup) {
		now := w.now()
		for _, b := range group {
			w.moment(b.ID).added = now
		}
		if err := add(ctx, group...); err != nil {
			return err
		}
	}
	return nil
}
