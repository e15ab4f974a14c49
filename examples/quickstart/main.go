// Quickstart shows the whole way: a thousand signed batches of twenty services go from a SQLite
// file to a Sawtooth node, in order, while the node is restarted in the middle. You need not
// install anything: the node is a simulated one on the loopback interface.
//
//	go run ./examples/quickstart
//	go run ./examples/quickstart -store memory
//	go run ./examples/quickstart -db queue.db     (keeps the file; the next run continues with it)
//	go run ./examples/quickstart -console         (at the end serves a console until Ctrl-C)
//	go run ./examples/quickstart -url http://localhost:8008   (a node with the intkey processor)
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/examples/internal/demo"
	"github.com/dltbatch/dltbatch/store"
)

type config struct {
	url, db, store    string
	batches, services int
	keepsConsole      bool
}

// usageText is the text of -h before the flags.
const usageText = `Quickstart sends a thousand signed batches of twenty services from a SQLite file to a simulated
Sawtooth node, in order, while the node is restarted. The node's journal proves the result.

usage: go run ./examples/quickstart [flags]
`

func main() {
	var c config
	flag.StringVar(&c.url, "url", "", "a real node, instead of the simulated one")
	flag.StringVar(&c.db, "db", "", "the SQLite file, kept (default: one in a temporary folder)")
	flag.StringVar(&c.store, "store", "sqlite", "sqlite or memory")
	flag.IntVar(&c.batches, "n", 1000, "batches")
	flag.BoolVar(&c.keepsConsole, "console", false, "keep a console open on loopback at the end, until Ctrl-C")
	flag.IntVar(&c.services, "services", 20, "services, each a lane of its own")
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usageText); flag.PrintDefaults() }
	flag.Parse()
	demo.Main("quickstart", func(ctx context.Context, out io.Writer, live bool) error { return run(ctx, c, out, live) })
}

func run(ctx context.Context, c config, out io.Writer, live bool) error {
	if c.batches < 1 || c.services < 1 {
		return errors.New("-n and -services want at least 1")
	}
	st, where, done, err := demo.Open(ctx, c.store, c.db)
	if err != nil {
		return err
	}
	defer done()

	url, node := c.url, (*sawtoothtest.Node)(nil)
	var opts sawtooth.Options
	progress := newProgress(out, live)
	runnerOptions := dltbatch.Options{Observer: progress}
	if url == "" {
		// The simulated node commits every 100 ms, so a batch that no one has seen for two seconds
		// is lost. Keep the defaults, 60 s and more, for real nodes.
		node, err = sawtoothtest.Listen(&sawtoothtest.Options{BlockInterval: 100 * time.Millisecond})
		if err != nil {
			return err
		}
		defer node.Close()
		url = node.URL()
		opts.Grace = 2 * time.Second
		runnerOptions.FirstPoll = 10 * time.Millisecond
		fmt.Fprintf(out, "a simulated Sawtooth node at %s, a block every 100 ms\n", url)
	} else {
		fmt.Fprintln(out, "the node at", url)
	}
	fmt.Fprintln(out, "the queue is in", where)

	ledger, err := sawtooth.New(url, &opts)
	if err != nil {
		return err
	}
	defer ledger.CloseIdleConnections()
	runner, err := dltbatch.New(st, ledger, &runnerOptions)
	if err != nil {
		return err
	}

	batches, err := build(c)
	if err != nil {
		return err
	}
	if err := runner.Add(ctx, batches...); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d signed batches of %d services are stored\n\n", len(batches), c.services)
	progress.setBatchCount(len(batches))

	running, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(running) }()
	idle := make(chan error, 1)
	go func() { idle <- runner.Idle(running) }()

	restarted := node == nil // a real node is not restarted
	for tick := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case err := <-ended:
			return errors.Join(errors.New("stopped"), err)
		case err := <-idle:
			if err != nil {
				return err
			}
			tick.Stop()
			cancel()
			if err := <-ended; err != nil {
				return err
			}
			progress.end()
			progress.printTable()
			if err := prove(out, node, batches); err != nil || !c.keepsConsole {
				return err
			}
			again, err := dltbatch.New(st, ledger, &dltbatch.Options{FirstPoll: runnerOptions.FirstPoll})
			if err != nil {
				return err
			}
			return serveConsole(ctx, c, out, st, again)
		case <-tick.C:
			progress.refresh()
			if !restarted && progress.finalCount() > len(batches)/2 {
				restarted = true
				node.Restart()
				progress.printLine("the node was restarted: it forgot everything that was not in a block")
			}
		}
	}
}

// serveConsole keeps the Runner running, and serves the console of its store on a free port, until
// ctx is done. It pauses a lane, so that there is something to mend, unless the file is kept.
func serveConsole(ctx context.Context, c config, out io.Writer, st store.Store, runner *dltbatch.Runner) error {
	const actor, lane = "quickstart", "service-00"
	if c.db == "" {
		if _, err := runner.Pause(ctx, batch.Only(lane), batch.By{Actor: actor, Reason: "something to mend"}); err != nil {
			return err
		}
		waiting, err := build(config{batches: 2, services: 1})
		if err != nil {
			return err
		}
		if err := runner.Add(ctx, waiting...); err != nil {
			return err
		}
	}
	pages, err := console.New(st, &console.Options{Actor: func(*http.Request) (string, error) { return actor, nil }})
	if err != nil {
		return err
	}
	defer pages.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(running) }()
	server := &http.Server{Handler: console.Local(pages), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	fmt.Fprintf(out, "\nthe console is at http://%s/ until Ctrl-C\n", l.Addr())
	if err = server.Serve(l); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	cancel()
	return errors.Join(err, <-ended)
}

// prove compares the node's journal with the batches. It uses no record of the Runner.
func prove(out io.Writer, node *sawtoothtest.Node, batches []batch.Batch) error {
	if node == nil {
		return nil
	}
	lane, order := map[batch.ID]string{}, map[string][]batch.ID{}
	for _, b := range batches {
		lane[b.ID] = string(b.Service)
		order[string(b.Service)] = append(order[string(b.Service)], b.ID)
	}
	if err := node.Check(sawtoothtest.Expectation{
		Lane: func(id batch.ID) string { return lane[id] }, Order: order,
	}); err != nil {
		return fmt.Errorf("the node's journal says: %w", err)
	}
	fmt.Fprintf(out, "\nthe node's journal: all %d committed, every service in order, none twice\n", len(batches))
	return nil
}
