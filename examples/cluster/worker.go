package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
)

// job is the input of a worker process.
type job struct {
	DSN      string `json:"dsn"`
	Schema   string `json:"schema"`
	URL      string `json:"url"`
	observer batch.Observer
}

// committedLine is the line that a worker prints when it has written a commit. A worker prints an
// error on a line of its own. Both are only shown: the proof uses neither.
const committedLine = "committed"

// runWorker is the whole worker process: it runs a Runner on the shared database until its
// standard input ends.
func runWorker(in io.Reader, out io.Writer) error {
	return demo.Work(in, func(ctx context.Context, j job) error {
		var mu sync.Mutex
		j.observer = batch.ObserverFunc(func(_ context.Context, e batch.Event) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case e.Kind == batch.EventFinal && e.State == batch.Committed:
				fmt.Fprintln(out, committedLine)
			case e.Kind == batch.EventFinal, e.Kind == batch.EventDecision, e.Kind == batch.EventOrderBreach,
				e.Kind == batch.EventTrouble, e.Kind == batch.EventLaneHeld, e.Kind == batch.EventPaused:
				fmt.Fprintf(out, "%s %.20s %s: %v\n", e.Kind, e.Key, e.State, e.Err)
			}
		})
		runner, done, err := j.open()
		if err != nil {
			return err
		}
		defer done()
		return runner.Run(ctx)
	})
}
