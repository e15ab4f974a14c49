package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
	"github.com/dltbatch/dltbatch/probe"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

// job is what both processes need to know: the web process adds and awaits, the worker delivers.
type job struct {
	DSN    string        `json:"dsn"`
	Schema string        `json:"schema"`
	URL    string        `json:"url"` // address of the node
	Grace  time.Duration `json:"grace"`
}

// open opens the database and the ledger for one process.
func (j job) open() (s *shop, done func(), err error) {
	db, err := sql.Open("postgres", j.DSN)
	if err != nil {
		return nil, nil, err
	}
	ledger, err := sawtooth.New(j.URL, &sawtooth.Options{Grace: j.Grace})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	done = func() {
		ledger.CloseIdleConnections()
		_ = db.Close() // at the end of the process
	}
	st, err := postgres.New(db, &postgres.Options{
		Schema: j.Schema, Prefix: "dltbatch_",
		Listen: native.Listen(j.DSN), // lib/pq cannot wait for hints through database/sql; pgx's pool can
	})
	if err != nil {
		done()
		return nil, nil, err
	}
	runner, err := dltbatch.New(st, ledger, &dltbatch.Options{Observer: batch.ObserverFunc(printTrouble)})
	if err != nil {
		done()
		return nil, nil, err
	}
	return &shop{db: db, store: st, runner: runner}, done, nil
}

// printTrouble prints the events that a person should read to the standard error.
func printTrouble(_ context.Context, e batch.Event) {
	if e.Kind == batch.EventDecision || e.Kind == batch.EventTrouble || e.Kind == batch.EventLaneHeld {
		fmt.Fprintf(os.Stderr, "%s %.20s: %v\n", e.Kind, e.Key, e.Err)
	}
}

// runWorker is the whole worker process: it runs the Runner until its standard input ends, and
// serves the probes of Kubernetes.
func runWorker(in io.Reader, out io.Writer) error {
	return demo.Work(in, func(ctx context.Context, j job) error {
		s, done, err := j.open()
		if err != nil {
			return err
		}
		defer done()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		mux := http.NewServeMux()
		mux.Handle("GET /livez", probe.Live(s.runner, nil))
		mux.Handle("GET /readyz", probe.Ready(s.runner, nil))
		server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
		defer server.Close()
		go func() { _ = server.Serve(listener) }() // ends with Close
		fmt.Fprintf(out, "process %d delivers to %s; GET http://%s/readyz\n", os.Getpid(), j.URL, listener.Addr())
		return s.runner.Run(ctx)
	})
}
