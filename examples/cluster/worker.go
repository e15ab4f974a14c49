package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

// workerCommand is the argument by which this program is a worker.
const workerCommand = "worker"

// job is what a worker is told, as a line on its standard input: a command line would
// show the password in the data source name to everybody.
type job struct {
	DSN      string `json:"dsn"`
	Schema   string `json:"schema"`
	URL      string `json:"url"`
	observer batch.Observer
}

// note is what a worker says about a batch, as a line on its standard output.
type note struct {
	Kind  batch.EventKind `json:"kind"`
	ID    batch.ID        `json:"id"`
	State batch.State     `json:"state"`
	Error string          `json:"error,omitempty"`
}

// work is the whole of a worker: a Runner on the shared database, which runs until
// its standard input is at an end. What it says is for show.
func work(in io.Reader, out io.Writer) error {
	var j job
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, &j); err != nil {
		return err
	}
	var mu sync.Mutex
	say := json.NewEncoder(out)
	j.observer = batch.ObserverFunc(func(_ context.Context, e batch.Event) {
		n := note{Kind: e.Kind, ID: e.Key.ID, State: e.State}
		if e.Err != nil {
			n.Error = e.Err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		_ = say.Encode(n) // if nobody listens any more, the input is at its end, too
	})
	runner, done, err := j.open()
	if err != nil {
		return err
	}
	defer done()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		defer stop()
		_, _ = io.Copy(io.Discard, lines) // the end of a parent that died is an end like any other
	}()
	return runner.Run(ctx)
}
