package dlttest

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

// concurrentCallers is the number of goroutines that use the client at once.
const concurrentCallers = 16

func concurrencyChecks() []Check {
	return []Check{{
		Name:    "Concurrency",
		Promise: "all methods may be called concurrently: run the suite under -race",
		run:     checkConcurrentUse,
	}}
}

func checkConcurrentUse(e *checkRun) {
	old := e.committedBatch()
	bs := make([]batch.Batch, concurrentCallers)
	for i := range bs {
		bs[i] = e.newBatchOf(e.Services[i%2])
	}
	// Failures are reported when all goroutines have ended: FailNow may be called only in the
	// check's own goroutine.
	failures := make(chan error, 3*concurrentCallers)
	var wg sync.WaitGroup
	for _, b := range bs {
		wg.Go(func() {
			if err := e.submit(b); err != nil {
				failures <- fmt.Errorf("submit %s: %w", b.Key(), err)
			}
		})
		wg.Go(func() {
			statuses, err := e.askStatuses(old)
			if err != nil {
				failures <- fmt.Errorf("statuses: %w", err)
			}
			for _, s := range statuses {
				if s.ID != old.ID || s.Reported != batch.ReportedCommitted {
					failures <- fmt.Errorf("asked about %s, and the answer says that %s is %s", old.ID, s.ID, s.Reported)
				}
			}
		})
		wg.Go(func() { e.Ledger.Traits(b.Service) })
	}
	wg.Wait()
	close(failures)
	for err := range failures {
		assert.NoError(e, err)
	}
	for _, b := range bs {
		e.requireBecomes(b, batch.ReportedCommitted)
		e.requirePosted(b, 1, 1)
	}
}
