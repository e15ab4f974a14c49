// Metrics shows how a service serves its metrics to Prometheus, and its health to Kubernetes: read
// telemetry.go. It adds batches all the time, to a store in memory. A ledger in memory takes most of
// them, and is sometimes busy, and loses requests and answers.
//
// It is a module of its own, because it brings OpenTelemetry's SDK, which the library does not link:
//
//	go run -C examples/metrics .
//
//	go run -C examples/metrics . -trace   (one trace through two processes, the first killed: read traces.go)
//
// Without -trace it serves until Ctrl-C:
//
//	curl http://127.0.0.1:8080/metrics
//	curl http://127.0.0.1:8080/livez
//	curl http://127.0.0.1:8080/readyz
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/store/memory"
)

// about is what -h prints before the flags.
const about = `Metrics serves a Runner's metrics to Prometheus, and its health to Kubernetes, while batches go to a
ledger in memory that is sometimes busy, and loses requests and answers. It ends with Ctrl-C.

With -trace it shows one trace through two processes instead; kill -9 ends the first.

usage: go run -C examples/metrics . [flags]
`

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "where to serve")
	rate := flag.Int("rate", 50, "batches a second")
	trace := flag.Bool("trace", false, "show a trace through two processes, and end")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), about); flag.PrintDefaults() }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := func() error { return run(ctx, *listen, *rate, os.Stdout) }
	if dir := os.Getenv(addIn); dir != "" {
		do = func() error { return addAndDie(ctx, dir) }
	} else if *trace {
		do = func() error { return traced(ctx, os.Stdout) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen string, rate int, out io.Writer) error {
	if rate < 1 {
		return errors.New("-rate wants at least 1")
	}
	faults := ledgermem.Faults{Seed: uint64(time.Now().UnixNano()), Busy: 0.02, LostRequest: 0.02, LostReply: 0.02}
	ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 200 * time.Millisecond, Fault: faults.Fault})
	runner, handler, err := measured(memory.New(), ledger, &dltbatch.Options{RetryDelay: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	url := "http://" + listener.Addr().String()
	fmt.Fprintf(out, "serving %s/metrics, %s/livez and %s/readyz\n", url, url, url)

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 3)
	go func() { ended <- runner.Run(ctx) }()
	go func() { ended <- add(ctx, runner, rate) }()
	go func() { ended <- server.Serve(listener) }()
	err = <-ended // the first end is the end of all
	stop()
	err = errors.Join(err, server.Close(), <-ended, <-ended)
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return err
}

// add adds batches until ctx is done.
func add(ctx context.Context, runner *dltbatch.Runner, rate int) error {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		b := batch.Batch{Service: batch.ServiceID(fmt.Sprint("customer-", i%20)), ID: batch.ID(fmt.Sprint("b", i)), Payload: []byte("x")}
		if err := runner.Add(ctx, b); err != nil && ctx.Err() == nil {
			return err
		}
	}
}
