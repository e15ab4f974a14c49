package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/dltbatch/dltbatch/batch"
)

// workerCommand is the argument that makes this program a worker.
const workerCommand = "worker"

// job is a worker's input, a line on its standard input: a command line would show the
// password in the data source name to everybody.
type job struct {
	DSN      string `json:"dsn"`
	Schema   string `json:"schema"`
	URL      string `json:"url"`
	observer batch.Observer
}

// note is a worker's report about a batch, a line on its standard output.
type note struct {
	Kind  batch.EventKind `json:"kind"`
	ID    batch.ID        `json:"id"`
	State batch.State     `json:"state"`
	Error string          `json:"error,omitempty"`
}

// work is a whole worker: a Runner on the shared database, which runs until its standard input
// ends. Its notes are only for show.
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
		_ = say.Encode(n) // if nobody reads it, the input ends, too
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
		_, _ = io.Copy(io.Discard, lines) // it ends also if the parent dies
	}()
	return runner.Run(ctx)
}
