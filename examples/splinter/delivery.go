package main

import (
	"context"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/splinter/splintertest"
	"github.com/dltbatch/dltbatch/store"
)

// delivery runs a Runner, and after its restart another one.
type delivery struct {
	network  *splintertest.Network
	store    store.Store
	key      sawtooth.Signer
	progress *progress
}

// deliverAll adds the batches, and returns when every batch is final.
func (d *delivery) deliverAll(ctx context.Context, batches []batch.Batch) error {
	ctx, fail := context.WithCancelCause(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer fail(nil)
	working.Go(func() {
		p := person{network: d.network, store: d.store, progress: d.progress}
		if err := p.decideAll(ctx); err != nil {
			fail(err)
		}
	})
	runner, end, err := d.startRunner(ctx, fail)
	if err != nil {
		return err
	}
	defer func() { _ = end() }() // a second call returns the same error
	if err := runner.Add(ctx, batches...); err != nil {
		return err
	}
	d.progress.printLine("%d signed batches of %d services are stored", len(batches), len(lanes))

	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	idle := make(chan error, 1)
	for stage := 0; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-idle:
			if err != nil {
				return err
			}
			err = end()
			d.progress.end() // after the last events, which come later than the store's last commit
			return err
		case <-tick.C:
		}
		d.progress.refresh()
		switch finals := d.progress.finalCount(); {
		case stage == 0 && finals > len(batches)/2:
			stage++
			d.network.Restart(0)
			d.progress.printLine("a node was restarted: it forgot its queue, and the batches that it had executed")
		case stage == 1 && finals > len(batches)*3/4:
			stage++
			if err := end(); err != nil {
				return err
			}
			d.progress.printLine("the Runner was stopped, and another one starts from the database")
			if runner, end, err = d.startRunner(ctx, fail); err != nil {
				return err
			}
			defer func() { _ = end() }()
			working.Go(func() { idle <- runner.Idle(ctx) })
		}
	}
}

// startRunner makes a Runner with its own client, as a new process would, and runs it until the
// returned function is called.
func (d *delivery) startRunner(ctx context.Context, fail context.CancelCauseFunc) (r *dltbatch.Runner, end func() error, err error) {
	ledger, err := newClient(d.network, d.key, d.store)
	if err != nil {
		return nil, nil, err
	}
	r, err = dltbatch.New(d.store, ledger, &dltbatch.Options{
		Observer: d.progress, PollInterval: pollInterval, StuckAfter: stuckAfter,
		// A person's decision has to wait until the claim has expired.
		RequestTimeout: time.Second, ClaimTTL: 3 * time.Second,
	})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := r.Run(ctx)
		if err != nil {
			fail(err)
		}
		ended <- err
	}()
	return r, sync.OnceValue(func() error {
		defer ledger.CloseIdleConnections()
		cancel()
		return <-ended
	}), nil
}
