package main

import (
	"context"
	"sync"
	"sync/atomic"
)

// runPosts makes only the POSTs of the floor.
func runPosts(ctx context.Context, j job, w *work, m *meter, r *result) error {
	c := newClient(j.Ledger, 1024)
	defer c.close()
	if err := sleep(ctx, j.Idle); err != nil {
		return err
	}
	if err := m.start(); err != nil {
		return err
	}
	var next atomic.Int64
	var posting sync.WaitGroup
	for range max(j.Workers, floorWorkers) {
		posting.Go(func() {
			for i := int(next.Add(1)) - 1; i < j.N; i = int(next.Add(1)) - 1 {
				w.moments[i].added = w.now()
				must(c.post(ctx, "/batches", w.batches[i].Payload))
				w.moments[i].final = w.now()
			}
		})
	}
	posting.Wait()
	return m.stop(r, j.N)
}
