// Metrics is the outbox of examples/outbox with telemetry: it serves metrics to Prometheus and its
// health to Kubernetes, and makes traces. Read telemetry.go and shop.go. Orders arrive all the
// time; each is a row of the shop's own table and a batch, in one transaction of a SQLite
// database. A ledger in memory accepts most of the batches. Sometimes it is busy, and sometimes it
// loses requests and answers.
//
// It is a module of its own, because it uses OpenTelemetry's SDK, which the library does not link:
//
//	go run -C examples/metrics .
//	go run -C examples/metrics . -trace
//
// With -trace it shows one trace through two processes, the first of which is killed: read
// traces.go. Without -trace it serves until Ctrl-C, and prints the spans of the orders that you
// POST:
//
//	curl http://127.0.0.1:8080/metrics
//	curl http://127.0.0.1:8080/livez
//	curl http://127.0.0.1:8080/readyz
//	curl -X POST http://127.0.0.1:8080/orders/my-1
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

	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
)

// usageText is the text of -h before the flags.
const usageText = `Metrics is an outbox that serves its metrics to Prometheus and its health to Kubernetes, and prints
the spans of the orders that are POSTed, while batches go to a ledger in memory that is sometimes
busy, and loses requests and answers. It ends with Ctrl-C.

With -trace it shows one trace through two processes instead; kill -9 ends the first.

usage: go run -C examples/metrics . [flags]
`

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "where to serve")
	rate := flag.Int("rate", 50, "orders a second")
	trace := flag.Bool("trace", false, "show a trace through two processes, and end")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usageText); flag.PrintDefaults() }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := func() error { return run(ctx, *listen, *rate, os.Stdout) }
	if dir := os.Getenv(folderVariable); dir != "" {
		do = func() error { return addAndDie(ctx, dir) }
	} else if *trace {
		do = func() error { return showTrace(ctx, os.Stdout) }
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, "metrics:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen string, rate int, out io.Writer) (err error) {
	if rate < 1 {
		return errors.New("-rate wants at least 1")
	}
	dir, err := os.MkdirTemp("", "dltbatch-metrics-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	faults := ledgermem.Faults{Seed: uint64(time.Now().UnixNano()), Busy: 0.02, LostRequest: 0.02, LostReply: 0.02}
	ledger := ledgermem.New(&ledgermem.Options{CommitAfter: 200 * time.Millisecond, Fault: faults.Fault})
	s, err := open(ctx, dir, ledger, func(s span) error {
		_, err := fmt.Fprintf(out, "trace %s: %-16s took %-8s %s\n", s.Trace, s.Name, s.End.Sub(s.Start).Round(time.Millisecond), s.Attributes)
		return err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second}
	url := "http://" + listener.Addr().String()
	fmt.Fprintf(out, "serving\n  %s/metrics\n  %s/livez\n  %s/readyz\n  POST %s/orders/ID\nCtrl-C ends it\n", url, url, url, url)

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 3)
	go func() { ended <- s.runner.Run(ctx) }()
	go func() { ended <- s.placeOrders(ctx, rate) }()
	go func() { ended <- server.Serve(listener) }()
	err = <-ended // if one part ends, all end
	stop()
	err = errors.Join(err, server.Close(), <-ended, <-ended)
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return err
}

// placeOrders places orders until ctx is done.
func (s *shop) placeOrders(ctx context.Context, rate int) error {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := s.placeOrder(ctx, fmt.Sprint("b", i), fmt.Sprint("customer-", i%20)); err != nil && ctx.Err() == nil {
			return err
		}
	}
}
