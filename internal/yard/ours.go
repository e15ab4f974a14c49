package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/queuer"
)

// addGroup is the number of batches that one call adds, for every contender.
const addGroup = 500

// fake is the client of the fake ledger, as a user would write one.
type fake struct {
	*client
	w *work
}

// Traits implements dlt.Ledger. The fake ledger commits batches at once, and so in the order
// of acceptance.
func (*fake) Traits(batch.ServiceID) dlt.Traits {
	return dlt.Traits{Name: "yard", ResendHarmlessFor: dlt.Forever, AddAgainHarmless: true, MaxIDsPerQuery: 100, KeepsOrder: true}
}

// Submit implements dlt.Submitter. Every error is a doubt.
func (f *fake) Submit(ctx context.Context, a batch.Attempt) error {
	m := f.w.moment(a.ID)
	if m != nil {
		m.posted = f.w.now()
	}
	err := f.post(ctx, "/batches", a.Payload)
	if m != nil {
		m.accepted = f.w.now()
	}
	return err
}

// BatchStatuses implements dlt.BatchStatusReader.
func (f *fake) BatchStatuses(ctx context.Context, _ batch.ServiceID, attempts []batch.Attempt) ([]batch.Status, error) {
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
		case wordPending:
			out[i].Reported = batch.ReportedPending
		case wordUnknown:
			out[i].Reported = batch.ReportedUnknown
		default:
			return nil, &dlt.Error{Op: "batch statuses", Message: "unknown word " + batch.Excerpt(a.Status, 40)}
		}
	}
	return out, nil
}

// finals counts final batches, and closes all when none is left.
type finals struct {
	w     *work
	left  atomic.Int64
	bad   atomic.Int64  // final, but not committed
	few   int64         // the value of left after the first fifth
	fifth chan struct{} // closed then
	all   chan struct{}
}

func newFinals(w *work, n int) *finals {
	f := &finals{w: w, few: int64(n - n/5), fifth: make(chan struct{}), all: make(chan struct{})}
	f.left.Store(int64(n))
	return f
}

// Observe implements batch.Observer.
func (f *finals) Observe(_ context.Context, e batch.Event) {
	if e.Kind != batch.EventFinal {
		return
	}
	if e.State != batch.Committed {
		f.bad.Add(1)
	}
	if m := f.w.moment(e.Key.ID); m != nil {
		m.final = f.w.now()
	}
	switch f.left.Add(-1) {
	case 0:
		close(f.all)
	case f.few:
		close(f.fifth)
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
	runners := make([]*dltbatch.Runner, max(1, j.Instances))
	for i := range runners {
		st, shut, err := d.store(ctx, i == 0 && j.Waiting == 0)
		if err != nil {
			return err
		}
		defer shut()
		c := newClient(j.Ledger, 1024)
		defer c.close()
		o := &dltbatch.Options{Observer: done}
		switch {
		case j.Pipelined > 0:
			o.Strategy = queuer.Pipelined(j.Pipelined)
		case j.Parallel:
			o.Strategy = &queuer.Parallel{}
		}
		if j.Hold > 0 {
			o.Retention = heldKept
		}
		var ledger dlt.Ledger = &fake{c, w}
		switch {
		case j.Events:
			ledger = &withEvents{&fake{c, w}}
		case j.List > 0:
			ledger = &listing{&fake{c, w}, j.List}
		}
		if runners[i], err = dltbatch.New(st, ledger, o); err != nil {
			return err
		}
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	start := func() error { return d.start(ctx, m) }
	if j.Waiting > 0 { // all work is in the database: the start belongs to the measured time
		if err := start(); err != nil {
			return err
		}
		start = func() error { return nil }
	}
	ended := make(chan error, len(runners))
	for _, x := range runners {
		go func() { ended <- x.Run(ctx) }()
	}
	if j.Waiting == 0 {
		if err := sleep(ctx, max(warmUp, j.Idle)); err != nil {
			return err
		}
	}
	var before stacks
	if j.Stages {
		runtime.MemProfileRate = 1
		before = allocated()
	}
	added := make(chan error, len(runners))
	if j.Hold > 0 {
		s := &steady{database: d, w: w, j: j, left: done.left.Load, add: func(ctx context.Context, bs []batch.Batch) error { return runners[0].Add(ctx, bs...) }}
		go func() { added <- s.run(ctx, m, r) }()
	} else {
		if err := start(); err != nil {
			return err
		}
		for i, x := range runners {
			go func() { added <- w.add(ctx, j, i, len(runners), x.Add) }()
		}
	}
	for range runners {
		select {
		case err := <-added:
			if err != nil {
				return err
			}
		case err := <-ended:
			return fmt.Errorf("run ended: %w", err)
		}
	}
	for fifth, waiting := done.fifth, true; waiting; {
		select {
		case <-done.all:
			waiting = false
		case <-fifth:
			var err error
			if r.FirstRSS, err = status("VmHWM"); err != nil {
				return err
			}
			fifth = nil
		case err := <-ended:
			return fmt.Errorf("run ended: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("%d batches are not final: %w", done.left.Load(), ctx.Err())
		}
	}
	if j.Hold == 0 {
		if err := d.stop(ctx, m, r, j.N); err != nil {
			return err
		}
	}
	if j.Stages {
		r.Stages = allocated().since(before, j.N).stages
	}
	stop()
	for range runners {
		if err := <-ended; err != nil {
			return err
		}
	}
	if n := done.bad.Load(); n > 0 {
		return fmt.Errorf("%d batches are final and not committed", n)
	}
	return nil
}

// warmUp is the time that a contender runs idle before its work begins.
const warmUp = 300 * time.Millisecond

// runLoad adds batches of lanes that wait for a later process.
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
	const part = 100_000 // so that this process stays small, too
	for from := 0; from < j.Waiting; from += part {
		w := newWork(j.Seed+uint64(from), min(part, j.Waiting-from), j.Lanes, 1, j.Size)
		for i := range w.batches { // places go on where the last part ended
			binary.BigEndian.PutUint32(w.batches[i].Payload[idLen+4:], uint32((from+i)/j.Lanes))
		}
		if err := w.add(ctx, j, 0, 1, st.Add); err != nil {
			return err
		}
	}
	return d.settle(ctx)
}

// add adds the batches of one of several adders' lanes, in groups, at the job's pace.
func (w *work) add(ctx context.Context, j job, which, of int, add func(context.Context, ...batch.Batch) error) error {
	size := addGroup
	if j.Pace > 0 {
		size = max(1, min(addGroup, int(j.Pace/100))) // a hundred groups a second
	}
	began, added := time.Now(), 0
	group := make([]batch.Batch, 0, size)
	flush := func() error {
		if j.Pace > 0 {
			due := began.Add(time.Duration(float64(added) / j.Pace * float64(of) * float64(time.Second)))
			if err := sleep(ctx, time.Until(due)); err != nil {
				return err
			}
		}
		now := w.now()
		for _, b := range group {
			w.moment(b.ID).added = now
		}
		added += len(group)
		err := add(ctx, group...)
		group = group[:0]
		return err
	}
	for i, b := range w.batches {
		if lane, _ := w.lane(i); lane%of != which {
			continue
		}
		if group = append(group, b); len(group) == size {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if len(group) == 0 {
		return nil
	}
	return flush()
}

// sleep waits, unless ctx ends first.
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
