package main

import (
	"context"
	"io"

	"github.com/dltbatch/dltbatch/examples/internal/demo"
)

// job is the input of a worker.
type job struct {
	DB  string `json:"db"`
	URL string `json:"url"`
}

// runWorker is the whole worker process: it runs the service until its standard input ends.
func runWorker(in io.Reader) error {
	return demo.Work(in, func(ctx context.Context, j job) error {
		st, _, done, err := demo.Open(ctx, "sqlite", j.DB)
		if err != nil {
			return err
		}
		defer done()
		s, err := newService(st, j.URL)
		if err != nil {
			return err
		}
		defer s.ledger.CloseIdleConnections()
		return s.run(ctx)
	})
}
